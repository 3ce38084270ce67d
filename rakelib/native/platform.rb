# frozen_string_literal: true

require "English"
require "fileutils"
require "open3"
require "tmpdir"

# A platform that the gem is compiled for, on a machine that need not be of its kind: against Rubies that script/sysroot
# unpacks, or script/musl-ruby compiles, with zig as the linker. What is fixed about all of them is fixed here.
class Platform
  # The Rubies that each gem has a binary for.
  RUBIES = %w[3.3 3.4].freeze

  # The oldest glibc that a binary runs with. musl's symbols have no versions.
  GLIBC = "2.17"

  # What a binary, and a gem, may weigh at most, in bytes: a tenth or so above what they do. Nearly all of it are SQLite,
  # the drivers of the servers, and TLS.
  BINARY_LIMIT = 11_500_000
  GEM_LIMIT = 10_500_000

  # What a binary shows to others. The second is of Ruby's protocol too: its development versions ask for it.
  EXPORTS = %w[Init_lease_machines_native ruby_abi_version].freeze

  # What is written about what is linked in, and the script that writes it.
  NOTICES = { "THIRD-PARTY.txt" => "script/third-party", "sbom.cdx.json" => "script/sbom" }.freeze

  # What a binary may ask of the system. By that name musl's loader means itself, whatever the file is called.
  GLIBC_LIBRARIES = /\A(?:lib(?:c|dl|m|pthread)\.so\.\d|ld-linux-.*\.so\.\d)\z/
  MUSL_LIBRARIES = /\Alibc\.so\z/

  ROOT = File.expand_path("../..", __dir__)
  BUILD = "target/native"
  PYTHON = File.join(ENV["XDG_CACHE_HOME"] || File.expand_path("~/.cache"), "lease-machines", "python")

  # Whether there can be Rubies for other platforms here: they are unpacked from Debian's packages.
  def self.packages? = ENV.fetch("PATH").split(":").any? { |folder| File.executable?(File.join(folder, "apt-get")) }

  # The folder of zig, which script/setup installs.
  def self.zig
    Dir["#{PYTHON}/lib/python3*/site-packages/ziglang"].first || raise("zig is not in #{PYTHON}: run script/setup")
  end

  attr_reader :name, :target

  # @param name [String] RubyGems' name for it
  # @param target [String] Rust's
  # @param architecture [String] Debian's
  # @param emulator [String, nil] what runs its programs here, nil where the processor does
  def initialize(name, target:, architecture:, emulator: nil)
    @name = name
    @target = target
    @architecture = architecture
    @emulator = emulator unless RbConfig::CONFIG["host_cpu"] == name[/\A[^-]+/]
  end

  ALL = [
    new("x86_64-linux", target: "x86_64-unknown-linux-gnu", architecture: "amd64", emulator: "qemu-x86_64-static"),
    new("aarch64-linux", target: "aarch64-unknown-linux-gnu", architecture: "arm64", emulator: "qemu-aarch64-static"),
    new("x86_64-linux-musl", target: "x86_64-unknown-linux-musl", architecture: "amd64", emulator: "qemu-x86_64-static"),
    new("aarch64-linux-musl", target: "aarch64-unknown-linux-musl", architecture: "arm64", emulator: "qemu-aarch64-static")
  ].freeze

  def self.named(name) = ALL.find { |platform| platform.name == name } || raise("no platform is called #{name}")

  def emulated? = !@emulator.nil?

  def musl? = name.end_with?("-musl")

  def libraries = musl? ? MUSL_LIBRARIES : GLIBC_LIBRARIES

  def binary(ruby) = "#{BUILD}/#{name}/#{ruby}/lease_machines_native.so"

  # The task that builds its gem. Without the first part Rake would take "verify:native:NAME" for it within "verify:...".
  def task = "rake:native:#{name}"

  def gem_file(version) = "pkg/lease_machines-#{version}-#{name}.gem"

  # Cargo's arguments, and the environment to call it in, for a binary for that Ruby.
  def compile_command(ruby)
    [compile_environment(ruby), "cargo", "zigbuild", "--quiet", "--release", "--locked",
     "--package", "lease_machines_native", "--target", musl? ? @target : "#{@target}.#{GLIBC}"]
  end

  def compiled = "#{BUILD}/build/#{@target}/release/liblease_machines_native.so"

  # Yields a folder of a machine that has nothing but this platform's Ruby, and a function that runs that Ruby, there, in
  # a folder below it, with these arguments. What it printed is shown once it has ended: others may run beside it.
  def on_empty_machine(ruby)
    root = sysroot(ruby)
    Dir.mktmpdir("gem", File.join(root, "tmp")) do |folder|
      inside = folder.delete_prefix(root)
      environment = { "PATH" => "/usr/bin", "LANG" => "C.UTF-8", "HOME" => inside, "GEM_HOME" => "#{inside}/home" }
      yield folder, (lambda do |below, *arguments|
        output, status = Open3.capture2e(environment, *enter(root), *emulated(root), "/usr/bin/ruby", "-C",
                                         "#{inside}/#{below}", *arguments, unsetenv_others: true)
        $stdout.write("\n#{name}, Ruby #{ruby}: #{arguments.grep(%r{\A\w[\w./-]*\z}).join(" ")}\n#{output}")
        $stdout.flush
        raise "it failed on #{name}, Ruby #{ruby}: #{status}" unless status.success?
      end)
    end
  end

  private

  def sysroot(ruby)
    (@sysroots ||= {})[ruby] ||= begin
      script = musl? ? "script/musl-ruby" : "script/sysroot"
      output = IO.popen([File.join(ROOT, script), @architecture, ruby], &:read)
      raise "#{script} #{@architecture} #{ruby} failed" unless $CHILD_STATUS.success?

      output.lines.last.chomp
    end
  end

  def compile_environment(ruby)
    config = configuration(ruby)
    {
      **config.to_h { |key, value| ["RBCONFIG_#{key}", value.to_s] },
      "RBCONFIG_CROSS_COMPILING" => "yes",
      "BINDGEN_EXTRA_CLANG_ARGS_#{@target}" => clang_arguments(sysroot(ruby), config.fetch("arch")).join(" "),
      "PATH" => "#{PYTHON}/bin:#{ENV.fetch("PATH")}",
      "CARGO_TARGET_DIR" => "#{BUILD}/build",
      "CARGO_PROFILE_RELEASE_STRIP" => "symbols",
      "CARGO_ENCODED_RUSTFLAGS" => rust_flags.join("\x1f")
    }
  end

  # Panics name their place in the sources; whose machine that was is nobody's business, and differs. For musl Rust would
  # link the C library in: a second one in a process.
  def rust_flags
    [*{ ROOT => ".", cargo_home => "cargo" }.map { |from, to| "--remap-path-prefix=#{from}=#{to}" },
     *("-Ctarget-feature=-crt-static" if musl?)]
  end

  # RbConfig::CONFIG of a Ruby that need not run here. Its file compares RUBY_VERSION, and takes its folder for Ruby's.
  def configuration(ruby)
    file = Dir["#{sysroot(ruby)}/usr/lib/{*/ruby/#{ruby}.0,ruby/#{ruby}.0/*-musl}/rbconfig.rb"].fetch(0)
    place = Module.new { const_set(:RUBY_VERSION, "#{ruby}.0") }
    place.module_eval(File.read(file), file)
    place.const_get(:RbConfig)::CONFIG
  end

  # The headers of that Ruby's own system, and clang's. Those of zig's clang come last, for what an older clang has not.
  def clang_arguments(root, triplet)
    own = Dir["/usr/lib/llvm-*/lib/clang/*/include"].max_by { |folder| folder[/llvm-(\d+)/, 1].to_i }
    raise "clang's headers are not where Debian has them; install libclang-dev" unless own

    ["--target=#{@target}", "-isystem", own, "-isystem", "#{root}/usr/include/#{triplet}", "-isystem", "#{root}/usr/include",
     "-idirafter", "#{Platform.zig}/lib/include"]
  end

  def cargo_home = ENV["CARGO_HOME"] || File.expand_path("~/.cargo")

  # With a /proc, which tells stores which boot of which machine this is.
  def enter(root)
    ["unshare", *(%w[--map-root-user --pid --fork --kill-child] unless Process.uid.zero?), "--mount-proc", "--root", root]
  end

  def emulated(root)
    return [] unless @emulator

    here = ENV.fetch("PATH").split(":").map { |folder| File.join(folder, @emulator) }.find { |file| File.executable?(file) }
    raise "#{@emulator} is missing: install qemu-user-static" unless here

    # At once, since others may be about to run it.
    there = "#{root}/usr/bin/#{@emulator}"
    unless File.exist?(there) && FileUtils.identical?(here, there)
      copy = "#{there}-#{Process.pid}-#{Thread.current.object_id}"
      FileUtils.cp(here, copy)
      File.rename(copy, there)
    end
    ["/usr/bin/#{@emulator}"]
  end
end
