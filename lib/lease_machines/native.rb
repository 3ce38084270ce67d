# frozen_string_literal: true

# A gem with compiled binaries has one for each minor version of Ruby; one that was compiled here has just its own.
begin
  require "lease_machines/#{RUBY_VERSION[/\A\d+\.\d+/]}/lease_machines_native"
rescue LoadError
  require "lease_machines/lease_machines_native"
end
