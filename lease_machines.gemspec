# frozen_string_literal: true

require_relative "lib/lease_machines/version"

Gem::Specification.new do |spec|
  spec.name = "lease_machines"
  spec.version = LeaseMachines::VERSION
  spec.authors = ["The LeaseMachines authors"]
  spec.summary = "Leases with fencing tokens: who may act, until when, and how the one who overslept is stopped"
  spec.description = "Leases on SQLite, PostgreSQL, MySQL, MariaDB, Redis and Valkey, each grant under a greater token; " \
                     "a fence that refuses the older one; and the decision model behind them, which reads no clock."
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
    "lib/**/*.rb", "sig/**/*.rbs", "ext/**/*.{rb,rs,sql,lua,toml,lock,md}", "README.md", "CHANGELOG.md", "LICENSE.txt",
    ".yardopts", base: __dir__
  ].sort
  spec.extensions = ["ext/lease_machines_native/extconf.rb"]
  spec.add_dependency "rb_sys", "~> 0.9", ">= 0.9.129"
end
