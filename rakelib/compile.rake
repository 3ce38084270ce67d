# frozen_string_literal: true

# Builds the native half into lib/.

# rb_sys would look for the crate by the name of the task's extension; this is where it is.
ENV["RB_SYS_CARGO_MANIFEST_DIR"] ||= File.join(ROOT, "ffi")

require "rb_sys/extensiontask"

RbSys::ExtensionTask.new("lease_machines_native", GEMSPEC) do |ext|
  ext.ext_dir = "ext/lease_machines_native"
  ext.lib_dir = "lib/lease_machines"
  ext.source_pattern = "../../{core,ffi,machine-id,os,store}/{Cargo.toml,src/**/*.{rs,sql,lua}}"
end
# It would have `rake clean` remove the whole workspace's build.
CLEAN.exclude(File.join(ROOT, "target"))
