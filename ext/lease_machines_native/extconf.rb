# frozen_string_literal: true

require "mkmf"

unless find_executable(ENV.fetch("CARGO", "cargo"))
  abort "lease_machines is written in Rust: install cargo (1.85 or later, see rustup) to build it, or take a gem for your " \
        "platform that was built already"
end

require "rb_sys/mkmf"

create_rust_makefile("lease_machines/lease_machines_native") do |rust|
  # In the gem the crate is carried beside this file; in the repository it has its own place.
  # rb_sys wants the path out of this folder to begin with "./".
  rust.ext_dir = File.directory?(File.join(__dir__, "ffi")) ? "ffi" : "./../../ffi"
  # The versions that the tests ran with.
  rust.extra_cargo_args += ["--locked"]
end
