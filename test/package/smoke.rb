# frozen_string_literal: true

# Run by `rake verify:source` and `rake verify:native` with nothing but the installed gem: ruby smoke.rb GEM_HOME VERSION,
# from a folder that has only this.

HOME_OF_THE_GEM, EXPECTED_VERSION = ARGV.shift(2)

require "minitest/autorun"
require "rubygems/package"
require "lease_machines"

class SmokeTest < Minitest::Test
  SPEC = Gem.loaded_specs.fetch("lease_machines")

  def test_it_is_the_installed_one
    loaded = $LOADED_FEATURES.grep(/lease_machines/)

    refute_empty loaded.grep(/lease_machines_native/)
    loaded.each { |file| assert file.start_with?(File.realpath(HOME_OF_THE_GEM)), file }
    assert_equal EXPECTED_VERSION, LeaseMachines::VERSION
    assert_equal EXPECTED_VERSION, SPEC.version.to_s
  end

  def test_it_decides
    authority = LeaseMachines::Authority.new
    fence = LeaseMachines::Fence.new
    first = authority.acquire(owner: 1, now: 0.0, ttl: 2.0).lease

    assert_equal :occupied, authority.acquire(owner: 2, now: 1.0, ttl: 2.0).reason
    second = LeaseMachines::Authority.restore(Marshal.load(Marshal.dump(authority.checkpoint)))
                                     .acquire(owner: 2, now: 2.0, ttl: 2.0).lease

    assert fence.accept(second.token)
    refute fence.accept(first.token)
    assert_raises(TypeError) { fence.accept(1.0) }
  end

  def test_it_asks_a_store
    LeaseMachines.open("sqlite:leases.db") do |leases|
      lease = leases.acquire("job", ttl: 60).lease

      assert_equal :occupied, leases.acquire("job", ttl: 60).reason
      assert_equal :released, leases.release("job", owner: lease.owner, token: lease.token).status
    end
  end

  def test_it_makes_ids
    ids = LeaseMachines::MachineId.start(strategy: LeaseMachines::MachineId::Fixed.new(7))

    assert_equal 7, LeaseMachines::MachineId::Layout.default.decode(ids.next_id).machine_id
    ids.stop
  end

  # That of a gem with binaries is looked at from outside: native_gem.rb.
  def test_it_carries_its_sources_and_nothing_else
    return unless SPEC.platform == Gem::Platform::RUBY

    files = Gem::Package.new(SPEC.cache_file).contents

    %w[README.md CHANGELOG.md LICENSE.txt .yardopts lib/lease_machines.rb sig/lease_machines.rbs
       ext/lease_machines_native/extconf.rb ext/lease_machines_native/Cargo.toml ext/lease_machines_native/Cargo.lock
       ext/lease_machines_native/core/Cargo.toml ext/lease_machines_native/core/src/lib.rs
       ext/lease_machines_native/ffi/Cargo.toml ext/lease_machines_native/ffi/src/lib.rs
       ext/lease_machines_native/store/src/lib.rs ext/lease_machines_native/os/src/lib.rs
       ext/lease_machines_native/machine-id/src/lib.rs].each do |file|
      assert_includes files, file
      assert_path_exists File.join(SPEC.gem_dir, file)
    end
    assert_empty files.grep_v(%r{\A(lib|sig|ext/lease_machines_native)/|\A[^/]+\z})
    refute_includes files, "Gemfile"
    assert_empty files.grep(/\.(so|bundle|o)\z|target/)
  end

  def test_what_it_says_of_itself
    assert SPEC.required_ruby_version.satisfied_by?(Gem::Version.new("3.3.0"))
    refute SPEC.required_ruby_version.satisfied_by?(Gem::Version.new("3.2.9"))
    assert_equal "true", SPEC.metadata["rubygems_mfa_required"]
    %w[source_code_uri changelog_uri documentation_uri bug_tracker_uri].each do |uri|
      assert_match %r{\Ahttps://}, SPEC.metadata.fetch(uri)
    end
    assert_equal "MIT", SPEC.license
  end
end
