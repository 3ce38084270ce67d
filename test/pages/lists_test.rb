# frozen_string_literal: true

require "minitest/autorun"

# What docs/errors.md and docs/events.md list is what there is in the code: every kind of error with its exit code, every
# code with which a guard fails in SQL alone, every figure with its labels.
class ListsTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)
  KINDS_OF_AN_ARM = /(?:\w+::\w+(?: \{ \.\. \})?[\s|]*)+|_/

  def self.read(path) = File.read("#{ROOT}/#{path}")

  # The names of an enum's variants, without their fields.
  def self.variants(path, enum)
    read(path)[/^pub enum #{enum} \{\n(.*?)^\}/m, 1].scan(/^    ([A-Z]\w+)/).flatten
  end

  # From each kind that a function in cli/src/exit.rs names to its code; others have that of its last arm.
  def self.codes(function)
    source = read("cli/src/exit.rs")
    numbers = source.scan(/^    (\w+) = (\d+) "/).to_h
    arms = source[/fn #{function}\(.*?^\}/m].scan(/(#{KINDS_OF_AN_ARM}) => \{?\s*Exit::(\w+)/)
    arms.each_with_object(Hash.new(numbers.fetch(arms.last.last))) do |(kinds, exit), codes|
      kinds.scan(/::(\w+)/) { |(kind)| codes[kind] = numbers.fetch(exit) }
    end
  end

  # The rows of a page's tables whose first cell names something in backticks, by that name.
  def self.rows(page)
    read(page).scan(/^\| (`.+) \|$/).flatten.each_with_object({}) do |row, rows|
      cells = row.split(" | ")
      cells.first.gsub(/\(.*?\)/, "").scan(/`(\w+)`/) { |(name)| rows[name] = cells }
    end
  end

  ERRORS = rows("docs/errors.md")
  STORES = variants("store/src/error.rs", "ErrorKind").to_h { |kind| [kind, kind.gsub(/(?<=.)[A-Z]/) { "_#{_1}" }.downcase] }
  FENCES = variants("store/src/fence.rs", "GuardErrorKind").to_h { |kind| [kind, kind] }

  { "of_store" => STORES, "of_guard" => FENCES }.each do |function, kinds|
    kinds.each do |kind, name|
      define_method(:"test_#{function}_#{name}") { assert_equal self.class.codes(function)[kind], ERRORS.fetch(name)[2] }
    end
  end

  def test_no_other_errors_are_listed
    assert_empty ERRORS.keys - STORES.values - FENCES.values
  end

  # The functions that name a kind in their own words.
  NAMED = { "out_of_range" => "OutOfRange", "below" => "StaleToken", "rewound" => "Rewound",
            "in_savepoint" => "OutsideTransaction", "outside" => "OutsideTransaction" }.freeze
  # What a guard in SQL alone fails with, by the pages: from the code to the kind.
  IN_SQL = read("docs/errors.md").scan(/`(\w+)` \(`(LF\d+)`\)/).to_h(&:reverse).freeze
  ENGINES = %w[postgres mysql].freeze

  # An SQLSTATE, or MySQL's own number for it.
  ENGINES.each do |engine|
    define_method(:"test_codes_of_a_guard_in_sql_on_#{engine}") do
      source = self.class.read("store/src/#{engine}/fence.rs")
      code = /(?:Some\(\()?"(LF\d+)"(?:, \w+\)\))?|45(1\d\d)/
      arms = source.scan(/^ +(?:#{code}) => (?:GuardError::new\(\s*GuardErrorKind::(\w+)|(\w+)\()/)
      known = arms.to_h { |state, number, kind, named| [state || format("LF%03d", number.to_i - 100), kind || NAMED[named]] }

      assert_equal IN_SQL.sort, known.sort
    end

    define_method(:"test_what_a_guard_in_sql_raises_on_#{engine}") do
      source = Dir["#{ROOT}/store/src/#{engine}/sql/*.sql"].map { |path| File.read(path) }.join
      numbers = source.scan(/'(LF\d+)' SET MYSQL_ERRNO = (\d+)/).uniq

      assert_equal IN_SQL.keys.sort, source.scan(/'(LF\d+)'/).flatten.uniq.sort
      numbered = IN_SQL.keys.map { |state| [state, (45_100 + state.delete_prefix("LF").to_i).to_s] }

      assert_equal (engine == "mysql" ? numbered.sort : []), numbers.sort
    end
  end

  # On whatever page, and in the example.
  def test_codes_of_a_guard_in_sql_that_are_named_elsewhere
    files = Dir["#{ROOT}/{*.md,docs/*.md,examples/sqlx/**/*.rs,lib/**/*.rb}"]
    named = files.flat_map { |path| File.read(path).scan(/\bL[A-Z]\d{3}\b/) }.uniq

    assert_operator named.size, :>=, 4
    assert_empty named - IN_SQL.keys
  end

  def test_figures_and_their_labels
    telemetry, loss = %w[keeper/src/telemetry.rs keeper/src/loss.rs].map { |path| self.class.read(path) }
    rows = self.class.rows("docs/events.md")
    labels = rows.values.flat_map { |cells| cells.last.sub(/\A.*?:/, "").scan(/`(\w+)`/) }

    assert_equal telemetry.scan(/(?:count|measure)!\("(\w+)"/).flatten.uniq.sort, rows.keys.sort
    assert_equal "#{telemetry}#{loss}".scan(/ => "(\w+)"/).flatten.uniq.sort, labels.flatten.uniq.sort
  end
end
