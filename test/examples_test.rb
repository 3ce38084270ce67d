# frozen_string_literal: true

require_relative "pages/example"
require_relative "test_helper"

# The examples in the documentation of lib/ do what they say.
class ExamplesTest < Minitest::Test
  # What an example may take as given.
  class Given
    def authority = @authority ||= LeaseMachines::Authority.new.tap { _1.acquire(owner: 1, now: 0, ttl: 9) }
    def leases = @leases ||= LeaseMachines.open("sqlite::memory:")
    def work(_token) = nil
    def wait = nil
  end

  ROOT = File.expand_path("..", __dir__)

  # An example is a run of comment lines, after an empty one, that are indented by two more than the text is, as RDoc has it.
  EXAMPLE = /(?<=#\n)(?: *# {3}.*\n)(?: *#(?: {3}.*)?\n)*/

  # Each with the number of its first line.
  def self.examples_of(text)
    text.to_enum(:scan, EXAMPLE).map do
      match = Regexp.last_match
      [match[0].gsub(/^ *#(?: {3})?/, ""), match.pre_match.count("\n") + 1]
    end
  end

  count = 0
  Dir["#{ROOT}/lib/**/*.rb"].each do |file|
    examples_of(File.read(file, encoding: "UTF-8")).each do |code, line|
      count += 1
      define_method(:"test_#{file.delete_prefix("#{ROOT}/")}_#{line}") do
        Example.new(code, file, line).run(Given.new) { |expected, found, where| assert_equal expected, found, where }

        pass
      end
    end
  end
  COUNT = count

  def test_there_are_examples
    assert_operator COUNT, :>=, 5
  end
end
