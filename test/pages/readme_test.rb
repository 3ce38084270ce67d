# frozen_string_literal: true

require "open3"
require "tmpdir"
require_relative "example"
require_relative "../test_helper"

# Every example in the pages at the root and in docs/ runs, by its language:
#
#   ruby     as test/pages/example.rb says
#   sh       with bash -eu, in an empty folder, with `lease` on the path; it must succeed
#   console  the same, line by line: "$ command", and then exactly what it prints; "..." stands for anything, a token of 16
#            digits for any other of a store's (they rise with its clock), and a last line "[exit N]" for a status other than
#            0; what begins with "cargo" runs at the root instead, as in a fresh clone
#   rust     as a doctest of the crate in this folder, which includes the page
#
# A block after a line <!-- not run: REASON --> is counted as skipped.
class ReadmeTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)
  PAGES = Dir["#{ROOT}/{,docs/}*.md"] - ["#{ROOT}/CHANGELOG.md"]
  BLOCK = /(?:^<!-- not run: (?<reason>.+) -->\n+)?^```(?<language>ruby|sh|console|rust)[^\n]*\n(?<code>.*?)^```$/m

  def self.binaries
    @binaries ||= begin
      built = system("cargo", "build", "--quiet", "--locked", "-p", "lease-machines-cli", chdir: ROOT)
      raise "the command line does not build" unless built

      File.join(ENV.fetch("CARGO_TARGET_DIR", "#{ROOT}/target"), "debug")
    end
  end

  PAGES.each do |page|
    text = File.read(page)
    text.to_enum(:scan, BLOCK).each do
      match = Regexp.last_match
      line = text[...match.begin(:code)].count("\n") + 1
      define_method(:"test_#{File.basename(page)}_#{line}_#{match[:language]}") do
        skip match[:reason] if match[:reason]
        send(match[:language], match[:code], page, line)
      end
    end
  end

  def test_the_readme_has_an_example_of_each_way_in
    languages = File.read("#{ROOT}/README.md").scan(BLOCK).map { |_, language, _| language }

    assert_empty %w[ruby rust] - languages
    refute_empty languages & %w[sh console]
  end

  private

  def ruby(code, page, line)
    example = Example.new(code, page, line)
    example.run(Object.new) { |expected, found, where| assert_equal expected, found, where }

    assert_predicate example.checks, :positive?, "an example that claims nothing (no \"# =>\") proves nothing"
  end

  def sh(code, page, line)
    output, status = bash(code)

    assert_predicate status, :success?, "#{page}:#{line}\n#{output}"
  end

  def console(code, page, line)
    Dir.mktmpdir do |folder|
      code.split(/^(?=\$ )/).each do |piece|
        command, expected = piece.delete_prefix("$ ").split("\n", 2)
        output, status = bash(command, folder)
        exit_code = expected[/^\[exit (\d+)\]\n*\z/, 1].to_i
        pattern = Regexp.escape(expected.sub(/^\[exit \d+\]\n*\z/, "").strip)
        pattern = pattern.gsub('\.\.\.', ".*").gsub(/\b\d{16}\b/) { '\d{16}' }

        assert_match(/\A#{pattern}\z/m, output.strip, "#{page}:#{line}: #{command}")
        assert_equal exit_code, status.exitstatus, "#{page}:#{line}: #{command}"
      end
    end
  end

  def rust(_code, page, line)
    included = %(#[doc = include_str!("../../#{page.delete_prefix("#{ROOT}/")}")])

    assert_includes File.read("#{__dir__}/lib.rs"), included,
                    "#{page}:#{line}: the page is not among the doctests of that crate, so that nothing runs this"
  end

  def bash(code, folder = nil)
    return Dir.mktmpdir { |empty| bash(code, empty) } unless folder

    path = "#{self.class.binaries}:#{ENV.fetch("PATH")}"
    Open3.capture2e({ "PATH" => path, "XDG_STATE_HOME" => folder, "TMPDIR" => folder },
                    "bash", "-euo", "pipefail", "-c", code, chdir: code.start_with?("cargo ") ? ROOT : folder)
  end
end
