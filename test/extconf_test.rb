# frozen_string_literal: true

require "open3"
require "rbconfig"
require "tmpdir"
require_relative "test_helper"

class ExtconfTest < Minitest::Test
  def test_without_cargo_it_says_what_to_install
    extconf = File.expand_path("../ext/lease_machines_native/extconf.rb", __dir__)
    Dir.mktmpdir do |folder|
      output, status = Open3.capture2e({ "CARGO" => "there-is-no-such-cargo" }, RbConfig.ruby, extconf, chdir: folder)

      refute_predicate status, :success?
      assert_match(/lease_machines is written in Rust: install cargo/, output)
    end
  end
end
