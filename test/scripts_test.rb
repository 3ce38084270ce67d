# frozen_string_literal: true

require "minitest/autorun"
require_relative "support/checkout"

# What script/setup asks for, and what the checks of script/crates and script/verify-command find, with other programs than
# those that take minutes.
class ScriptsTest < Minitest::Test
  include Checkout

  CARGO = ENV.fetch("PATH").split(":").map { |folder| "#{folder}/cargo" }.find { |file| File.executable?(file) }

  def test_tools_are_asked_for_by_the_steps_that_need_them
    assert_equal %w[cargo-about cargo-cyclonedx cargo-deny], missing_tools
    assert_equal %w[cargo-about cargo-cyclonedx cargo-deny cargo-hack cargo-semver-checks], missing_tools("--release")
    assert_empty missing_tools("rust", "ruby", "package")
    assert_equal %w[cargo-deny], missing_tools("fmt", "deny")
    assert_equal %w[cargo-about cargo-cyclonedx], missing_tools("native")
    assert_equal %w[cargo-about cargo-cyclonedx], missing_tools("command")
  end

  private

  # The programs from crates.io that script/setup would install for these steps, to a user who may not, where there are none.
  def missing_tools(*steps)
    stub("cargo", "exit")
    stub("rustup", "exit 1")
    stub("id", "echo 1000")
    path = ENV.fetch("PATH").split(":").reject { |folder| Dir["#{folder}/cargo*"].any? }.join(":")
    output, = script("setup", *steps, environment: { "PATH" => path, "CI" => nil })
    output.scan(/cargo install --locked (\S+)/).flatten.sort
  end
end
