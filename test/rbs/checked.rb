# frozen_string_literal: true

# Loaded before the tests, this checks every call that they make against sig/: what went in, and what came out. A call that
# raised is left alone, since to raise for what the signatures forbid is what it should do. At the end every public method
# that the signatures name must have been called.

require "rbs"
require "rbs/test"
require "minitest"
require "lease_machines"

module CheckedSignatures
  CALLED = Hash.new(0)

  # Counts what is checked, and leaves out what raised.
  module OnlyAnswers
    def call(receiver, trace)
      return unless trace.method_call.return?

      CALLED[[kind, definition.type_name.to_s, trace.method_name]] += 1
      super
    end
  end

  module_function

  def install
    RBS.logger_level = :error
    RBS::Test::Tester::MethodCallTester.prepend(OnlyAnswers)
    loader = RBS::EnvironmentLoader.new
    loader.add(path: Pathname("sig"))
    @tester = RBS::Test::Tester.new(env: RBS::Environment.from_loader(loader).resolve_type_names)
    classes.each { |kind| @tester.install!(kind, sample_size: nil, unchecked_classes: []) }
  end

  def uncalled
    expected = classes.flat_map do |kind|
      hooked(:instance, @tester.instance_testers[kind]) + hooked(:singleton, @tester.singleton_testers[kind])
    end
    expected - CALLED.keys
  end

  def calls = CALLED.values.sum

  def classes
    [LeaseMachines, LeaseMachines::MachineId].flat_map { |mod| mod.constants(false).map { mod.const_get(_1) }.grep(Class) }
  end

  def hooked(kind, (tester, names))
    methods = tester.definition.methods
    names.select { methods[_1].public? }.map { [kind, tester.definition.type_name.to_s, _1] }
  end
end

CheckedSignatures.install

# Run last, in a process of its own kind: the checks themselves are checked.
class CheckedSignaturesTest < Minitest::Test
  def test_a_call_that_a_signature_forbids_is_noticed
    assert_raises(RBS::Test::Tester::TypeError) { LeaseMachines::Decision.new(status: 7, lease: nil, reason: nil) }
  end
end

Minitest.after_run do
  uncalled = CheckedSignatures.uncalled
  puts "#{CheckedSignatures.calls} calls checked against sig/"
  abort "in sig/, and never called by the tests: #{uncalled.inspect}" unless uncalled.empty?
end
