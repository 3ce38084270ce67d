# frozen_string_literal: true

# Run by `rake verify:reproducible` and `rake verify:native:reproducible`: ruby reproducible.rb GEM TASK, from the root of
# the repository. Builds that gem once more, by that task.

require "digest"
require "fileutils"
require "minitest/autorun"
require "open3"
require "rubygems/package"
require "tmpdir"

GEM, TASK = ARGV.shift(2)

class ReproducibleTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)

  # In another folder, with other permissions, in another order, in another time zone, at another time; of the same commit.
  # What is compiled is compiled anew there.
  def test_the_same_commit_gives_the_same_bytes
    Dir.mktmpdir do |folder|
      copy(folder)
      environment = { "SOURCE_DATE_EPOCH" => ENV.fetch("SOURCE_DATE_EPOCH"), "TZ" => "Pacific/Kiritimati", "LC_ALL" => "C",
                      "RB_SYS_CARGO_MANIFEST_DIR" => nil, "CARGO_TARGET_DIR" => nil }
      output, status = Open3.capture2e(environment, "rake", TASK, chdir: folder, umask: 0o077)

      assert_predicate status, :success?, output
      again = "#{folder}/pkg/#{File.basename(GEM)}"

      assert_equal details(GEM), details(again)
      assert_equal Digest::SHA256.file(GEM), Digest::SHA256.file(again)
    end
  end

  private

  def copy(folder)
    files, status = Open3.capture2("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", chdir: ROOT)

    assert_predicate status, :success?
    files.split("\0").shuffle.select { |file| File.file?("#{ROOT}/#{file}") }.each do |file|
      FileUtils.mkdir_p(File.dirname("#{folder}/#{file}"))
      # Scripts still have to run.
      FileUtils.install("#{ROOT}/#{file}", "#{folder}/#{file}", mode: File.executable?("#{ROOT}/#{file}") ? 0o700 : 0o600)
    end
  end

  # What is compared first, since it says where a difference is.
  def details(gem)
    package = Gem::Package.new(gem)
    [package.spec.to_ruby, package.contents]
  end
end
