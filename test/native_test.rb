# frozen_string_literal: true

require "tmpdir"
require_relative "test_helper"

# How the native half is found, and what is said where it is not.
class NativeTest < Minitest::Test
  NATIVE = LeaseMachines.module_eval("Native", __FILE__, __LINE__)
  MINOR = RUBY_VERSION[/\A\d+\.\d+/]
  NAME = "lease_machines_native"

  def setup
    @folder = Dir.mktmpdir
    @features = $LOADED_FEATURES.dup
  end

  def teardown
    $LOADED_FEATURES.replace(@features)
    FileUtils.rm_rf(@folder)
  end

  def test_the_one_for_this_ruby_comes_first
    write("#{MINOR}/#{NAME}.rb")
    write("#{NAME}.rb")
    NATIVE.load(@folder)

    assert_equal ["#{MINOR}/#{NAME}.rb"], loaded
  end

  def test_then_the_one_that_was_compiled_here
    write("9.9/#{NAME}.rb")
    write("#{NAME}.rb")
    NATIVE.load(@folder)

    assert_equal ["#{NAME}.rb"], loaded
  end

  def test_without_either_it_says_what_to_do
    error = assert_raises(LoadError) { NATIVE.load(@folder, @folder) }

    [LeaseMachines::VERSION, "has no compiled binaries", "Ruby #{RUBY_VERSION} on #{RUBY_PLATFORM}",
     "#{@folder}/#{MINOR}/#{NAME}", "#{@folder}/#{NAME}",
     "gem install lease_machines --version #{LeaseMachines::VERSION} --platform ruby", "force_ruby_platform",
     "Rust 1.85"].each do |part|
      assert_includes error.message, part
    end
  end

  def test_it_says_which_rubies_there_are_binaries_for
    %w[3.10 3.4 9.9].each { |minor| write("#{minor}/#{NAME}.so") }
    write("authority.rb")
    error = assert_raises(LoadError) { NATIVE.load("#{@folder}/nowhere", @folder) }

    assert_includes error.message, "has binaries for Ruby 3.4, 3.10, 9.9. Tried:"
  end

  def test_one_that_is_there_and_does_not_load_is_not_passed_over_in_silence
    write("#{MINOR}/#{NAME}.#{RbConfig::CONFIG["DLEXT"]}", "no library at all")
    error = assert_raises(LoadError) { NATIVE.load(@folder) }

    assert_match(/#{NAME}\.#{RbConfig::CONFIG["DLEXT"]}.*(?:invalid|header|short|mach-o|exec format)/i, error.message)
  end

  private

  def write(file, content = "")
    FileUtils.mkdir_p(File.dirname("#{@folder}/#{file}"))
    File.write("#{@folder}/#{file}", content)
  end

  def loaded = ($LOADED_FEATURES - @features).map { |file| file.delete_prefix("#{File.realpath(@folder)}/") }
end
