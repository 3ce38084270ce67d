# frozen_string_literal: true

module LeaseMachines
  # Finds the native half. A gem with compiled binaries has one for each minor version of Ruby, in a folder of that name; one
  # that was compiled on this machine has just its own.
  #
  # @api private
  module Native
    NAME = "lease_machines_native"

    # @param within [String] the folder to look in, in the load path or absolute
    # @param carried [String] the folder that the gem's own binaries are in
    # @return [void]
    # @raise [LoadError] with what was tried, and what to do
    def self.load(within = "lease_machines", carried = __dir__)
      failures = []
      found = ["#{within}/#{RUBY_VERSION[/\A\d+\.\d+/]}/#{NAME}", "#{within}/#{NAME}"].any? do |file|
        require file
        true
      rescue LoadError => error
        failures << error.message
        false
      end
      raise LoadError, explain(failures, carried) unless found
    end

    # Without Gem::Version: there are Rubies without RubyGems.
    def self.explain(failures, carried)
      minors = Dir.children(carried).grep(/\A\d+\.\d+\z/).sort_by { |minor| minor.split(".").map(&:to_i) }
      has = minors.empty? ? "no compiled binaries" : "binaries for Ruby #{minors.join(", ")}"
      <<~TEXT
        the native half of lease_machines #{VERSION} does not load in Ruby #{RUBY_VERSION} on #{RUBY_PLATFORM}.
        What is installed in #{File.expand_path("../..", __dir__)} has #{has}. Tried:
        #{failures.map { |failure| "  #{failure}" }.join("\n")}
        Use a Ruby that there is a binary for, or compile the gem for this one, with Rust 1.85 or later and libclang:
          gem install lease_machines --version #{VERSION} --platform ruby
        (with Bundler: `bundle config set force_ruby_platform true`, and install again; in a clone: `bundle exec rake compile`)
      TEXT
    end
    private_class_method :explain

    load
  end
  private_constant :Native
end
