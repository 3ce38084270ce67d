# frozen_string_literal: true

require_relative "test_helper"
require "yard"

# Everything public has documentation. The natives have no Ruby source, so that it is the running code that says what there
# is, and YARD what is documented.
class DocumentationTest < Minitest::Test
  INNER = [LeaseMachines, LeaseMachines::MachineId].flat_map { |mod| mod.constants(false).map { mod.const_get(_1) } }
  MODULES = [LeaseMachines, *INNER.grep(Module)].freeze
  # Ruby's own, on each Data class.
  DATA_CLASS = %i[[] inspect members new yaml_tag].freeze

  YARD::Logger.instance.level = YARD::Logger::ERROR
  YARD::Registry.clear
  # YARD's own code has warnings of its own.
  $VERBOSE.then do |verbose|
    $VERBOSE = nil
    YARD.parse(File.expand_path("../lib/**/*.rb", __dir__))
  ensure
    $VERBOSE = verbose
  end

  MODULES.each do |mod|
    define_method(:"test_#{mod}") do
      documented(mod.name)
      mod.public_instance_methods(false).each { documented("#{mod}##{_1}") }
      (mod.singleton_methods(false) - (mod < Data ? DATA_CLASS : [])).each { documented("#{mod}.#{_1}") }
    end
  end

  def test_the_version
    documented("LeaseMachines::VERSION")
  end

  def test_nothing_is_documented_that_is_not_there
    YARD::Registry.all(:method).each do |object|
      mod = Object.const_get(object.namespace.path)
      there = object.scope == :class ? mod.singleton_class : mod

      assert there.method_defined?(object.name) || there.private_method_defined?(object.name), object.path
    end
  end

  def test_methods_say_what_they_take_and_give
    YARD::Registry.all(:method).each do |object|
      next if object.has_tag?(:api) || object.name == :initialize || object.is_alias? ||
              object.visibility == :private

      assert object.has_tag?(:return) || object.has_tag?(:raise), "#{object.path} does not say what it returns"
      next if %i[== clone].include?(object.name)

      # A method that is described only, with @!method, has parameters like any other.
      named = object.tags(:param).map { _1.name.delete_suffix(":") }
      taken = object.parameters.map { |name, _| name.delete_suffix(":").delete_prefix("**") }

      assert_equal taken.sort, named.sort, "the parameters of #{object.path}"
    end
  end

  private

  def documented(path)
    object = YARD::Registry.at(path)

    assert object, "#{path} is unknown to YARD"
    refute_empty object.docstring.all, "#{path} has no documentation"
  end
end
