# frozen_string_literal: true

require "rbs"
require_relative "test_helper"

# sig/ and the code name the same methods, with the same parameters. That the types are right as well is seen by running the
# other tests under test/rbs/checked.rb.
class SignatureTest < Minitest::Test
  MODULES = [LeaseMachines, LeaseMachines::MachineId]
            .flat_map { |mod| mod.constants(false).map { mod.const_get(_1) }.grep(Module) }.freeze
  # What Data defines for each of its kinds: signed, since it is used, but not this library's own.
  DATA = %i[to_h with deconstruct_keys members].freeze
  DATA_CLASS = %i[inspect].freeze

  def self.builder
    @builder ||= begin
      loader = RBS::EnvironmentLoader.new
      loader.add(path: Pathname(File.expand_path("../sig", __dir__)))
      RBS::DefinitionBuilder.new(env: RBS::Environment.from_loader(loader).resolve_type_names)
    end
  end

  MODULES.each do |mod|
    define_method(:"test_instance_methods_of_#{mod}") do
      compare(mod, own(definition(mod, :instance), mod), mod.public_instance_methods(false), mod.method(:instance_method))
    end

    define_method(:"test_singleton_methods_of_#{mod}") do
      compare(mod.singleton_class, own(definition(mod, :singleton), mod),
              mod.singleton_class.public_instance_methods(false) - DATA_CLASS,
              mod.singleton_class.method(:instance_method))
    end
  end

  def test_every_module_has_a_signature
    assert_operator MODULES.size, :>=, 8
    constants = LeaseMachines.constants.reject { LeaseMachines.const_get(_1).is_a?(Module) }

    assert_equal [:VERSION], constants
  end

  def test_every_status_and_reason_is_in_the_signatures
    source = File.read(File.expand_path("../sig/lease_machines.rbs", __dir__), encoding: "UTF-8")
    symbols = ->(type) { source[/type #{type} = (.*?)\n\n/m, 1].scan(/:\w+/).map { _1.delete_prefix(":").to_sym } }

    assert_equal %i[occupied vacant wrong_owner stale_token expired clock_regressed invalid_ttl deadline_overflow
                    tokens_exhausted], symbols.("reason")
    assert_equal %i[granted renewed released rejected], symbols.("status")
  end

  private

  def definition(mod, kind)
    name = RBS::Factory.new.type_name("::#{mod}")
    kind == :instance ? self.class.builder.build_instance(name) : self.class.builder.build_singleton(name)
  end

  def own(definition, mod)
    definition.methods.select { |_, method| method.public? && method.defined_in.to_s == "::#{mod}" }
  end

  def compare(mod, signed, defined, method)
    inherited = signed.keys.select { |name| !defined.include?(name) && mod.method_defined?(name) }

    assert_empty signed.keys - defined - inherited, "signed, and not there"
    assert_empty inherited - DATA - %i[[] initialize new members], "signed here, and inherited"
    assert_empty defined - signed.keys, "there, and not signed"
    defined.each do |name|
      assert_parameters(signed.fetch(name), method.(name)) unless mod.to_s.include?("Data") || data?(mod)
    end
  end

  # Data takes its members either way, and says only that it takes anything.
  def data?(mod)
    mod.ancestors.include?(Data) || (mod.singleton_class? && mod.attached_object.ancestors.include?(Data))
  end

  def assert_parameters(signature, method)
    function = signature.method_types.fetch(0).type
    expected = [function.required_positionals.size, function.required_keywords.keys.sort,
                function.optional_keywords.keys.sort]
    kinds = method.parameters.group_by(&:first).transform_values { |all| all.map(&:last) }
    actual = [kinds.fetch(:req, []).size, kinds.fetch(:keyreq, []).sort, kinds.fetch(:key, []).sort]

    assert_equal expected, actual, method.inspect
  end
end
