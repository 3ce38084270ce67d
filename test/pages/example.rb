# frozen_string_literal: true

# Runs a piece of Ruby as it stands in documentation. Where a line ends in "# => value", that is what it must give; a line
# that ends in "# => raises Name" must raise that.
class Example
  ARROW = /\A(?<code>.*?\S)\s+# => (?<value>.+)\z/

  attr_reader :checks

  def initialize(source, file, line)
    @source = source
    @file = file
    @line = line
    @checks = 0
  end

  # Yields what was expected, what was found, and where, for each arrow.
  def run(context, &check)
    @check = check
    scope = context.instance_eval { binding }
    scope.local_variable_set(:example__, self)
    scope.eval(with_checks, @file, @line)
  end

  def check(value, expected, line)
    @checks += 1
    @check.(expected, value.inspect, "#{@file}:#{line}")
  end

  private

  # Line by line, so that what goes wrong is reported where it stands. The value of a line that assigns is what it assigned.
  def with_checks
    @source.lines.each_with_index.map do |line, index|
      arrow = ARROW.match(line.chomp) or next line
      where = @line + index
      if (error = arrow[:value][/\Araises ([\w:]+)/, 1])
        "begin; #{arrow[:code]}; example__.check(:nothing, #{error.inspect}, #{where}); " \
          "rescue #{error} => error__; example__.check(error__.class, error__.class.inspect, #{where}); end\n"
      else
        # Words after the value, set off by a colon, are for the reader.
        "example__.check((#{arrow[:code]}), #{arrow[:value].sub(/: .*/, "").inspect}, #{where})\n"
      end
    end.join
  end
end
