# frozen_string_literal: true

require "minitest/autorun"

# docs/reports.md says which tests hold what went wrong for others. Every test that it names must exist, where it says.
class ReportsTest < Minitest::Test
  PAGE = File.expand_path("../../docs/reports.md", __dir__)
  LINE = /^- \[(?<file>[^\]]+)\]\((?<link>[^)]+)\): (?<names>.+)$/

  # Some tests are named under more than one report.
  named = File.readlines(PAGE).filter_map { |line| LINE.match(line) }.flat_map do |match|
    match[:names].scan(/`(\w+)`/).map { |(name)| [match[:file], match[:link], name] }
  end
  named.uniq.each do |file, link, name|
    define_method(:"test_#{file}_#{name}") do
      path = File.expand_path(link, File.dirname(PAGE))

      assert_match(/^ *(?:pub(?:\(\w+\))? )?(?:async )?(?:fn|def) #{name}\b/, File.read(path), "#{file}: #{name}")
    end
  end

  def test_each_report_names_a_test_or_says_what_it_waits_for
    reports = File.read(PAGE).split(/^## /).drop(1)
    bare = reports.reject { |report| report.match?(LINE) || report.include?("here: waits for") }

    assert_equal 34, reports.size
    assert_empty bare.map { |report| report.lines.first }
  end
end
