# frozen_string_literal: true

require "fileutils"
require "open3"
require "tmpdir"

# A copy of what git knows of this repository, in one of its own with a single commit and no tag, for tests of the scripts.
module Checkout
  ROOT = File.expand_path("../..", __dir__)

  # One is made, and cloned for each test, which takes a fraction of the time.
  def self.first
    @first ||= Dir.mktmpdir("checkout").tap do |folder|
      Minitest.after_run { FileUtils.rm_rf(folder) }
      system("git ls-files -z | tar -c --null -T - | tar -x -C #{folder}", chdir: ROOT, exception: true)
      system("git", "init", "--quiet", chdir: folder, exception: true)
      commit(folder)
    end
  end

  def self.commit(folder, *options)
    author = %w[-c user.name=test -c user.email=test@example.org]
    system("git", "add", "--all", chdir: folder, exception: true)
    system("git", *author, "commit", "--quiet", "-m", "test", *options, chdir: folder, exception: true)
  end

  def setup
    @folder = Dir.mktmpdir("checkout")
    git("clone", "--quiet", "--shared", Checkout.first, ".")
  end

  def teardown
    FileUtils.rm_rf([@folder, "#{@folder}.bin"])
  end

  private

  # @return [Array] what it printed, and its status
  def script(name, *arguments, environment: {})
    path = "#{@folder}.bin:#{environment.fetch("PATH", ENV.fetch("PATH"))}"
    output, status = Open3.capture2e({ **environment, "PATH" => path }, "script/#{name}", *arguments, chdir: @folder)
    [output.strip, status.exitstatus]
  end

  # A program of that name, before all others.
  def stub(name, script)
    FileUtils.mkdir_p("#{@folder}.bin")
    File.write("#{@folder}.bin/#{name}", "#!/usr/bin/env bash\n#{script}\n", perm: 0o755)
  end

  def change(file)
    path = "#{@folder}/#{file}"
    File.write(path, yield(File.read(path, encoding: "UTF-8")))
  end

  def commit(*options) = Checkout.commit(@folder, *options)

  def git(*arguments) = system("git", *arguments, chdir: @folder, exception: true)
end
