# frozen_string_literal: true

require_relative "lib/lease_machines/version"

Gem::Specification.new do |spec|
  spec.name = "lease_machines"
  spec.version = LeaseMachines::VERSION
  spec.authors = ["The LeaseMachines authors"]
  spec.summary = "Leases with fencing tokens: who may act, until when, and how the one who overslept is stopped"
  spec.description = "The decision model of LeaseMachines for Ruby: an authority that grants leases with rising tokens, " \
                     "a fence that refuses the older one, and a holder that knows when it must stop."
  spec.homepage = "https://github.com/leasemachines/lease_machines"
  spec.license = "MIT"
  spec.required_ruby_version = ">= 3.3"
  spec.metadata = {
    "source_code_uri" => spec.homepage,
    "changelog_uri" => "#{spec.homepage}/blob/main/CHANGELOG.md",
    "documentation_uri" => "https://rubydoc.info/gems/lease_machines",
    "bug_tracker_uri" => "#{spec.homepage}/issues",
    "rubygems_mfa_required" => "true"
  }

  # Listed by folder and not by git, which a packaged gem does not have. What is under ext/ besides extconf.rb is there only
  # once `rake vendor` has copied it.
  spec.files = Dir[
    "lib/**/*.rb", "sig/**/*.rbs", "ext/**/*.{rb,rs,toml,lock,md}", "README.md", "CHANGELOG.md", "LICENSE.txt", ".yardopts",
    base: __dir__
  ].sort
  spec.extensions = ["ext/lease_machines_native/extconf.rb"]
  spec.add_dependency "rb_sys", "~> 0.9", ">= 0.9.129"
end
