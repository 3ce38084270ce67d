# frozen_string_literal: true

# The gems that have the native half compiled already: one for each platform, with a binary for each minor version of Ruby.

require_relative "native/platform"

SOURCES = FileList["Cargo.{toml,lock}", "{core,ffi}/Cargo.toml", "{core,ffi}/src/**/*.rs", "script/requirements.txt",
                   "script/sysroot", "rakelib/native/*.rb"]

Platform::ALL.each do |platform|
  Platform::RUBIES.each do |ruby|
    file platform.binary(ruby) => SOURCES do |task|
      puts "compiling for Ruby #{ruby} on #{platform.name}"
      sh(*platform.compile_command(ruby), verbose: false)
      mkdir_p File.dirname(task.name), verbose: false
      cp platform.compiled, task.name, verbose: false
    end
  end

  desc "Build the gem for #{platform.name}, with its binaries, to pkg/"
  task "native:#{platform.name}" => [:epoch, *Platform::RUBIES.map { |ruby| platform.binary(ruby) }] do
    build_native_gem(platform)
  end

  desc "Install the gem for #{platform.name} on machines that have nothing but a Ruby, and run the tests there"
  task "verify:native:#{platform.name}" => "native:#{platform.name}" do
    ruby("-w", "test/package/native_gem.rb", platform.name, platform.gem_file(GEMSPEC.version))
    # A suite takes minutes under emulation: there it is run once, and the other Rubies have the smoke test.
    suites = platform.emulated? ? Platform::RUBIES.take(1) : Platform::RUBIES
    Platform::RUBIES.each { |version| verify_native_gem(platform, version, suite: suites.include?(version)) }
  end
end

desc "Build the gems for all platforms"
task native: Platform::ALL.map { |platform| "native:#{platform.name}" }

desc "Verify the gems for all platforms"
task "verify:native" => Platform::ALL.map { |platform| "verify:native:#{platform.name}" }

def build_native_gem(platform)
  stage = "tmp/native/#{platform.name}"
  rm_rf stage, verbose: false
  spec = native_gemspec(platform)
  (spec.files - Platform::NOTICES.keys).each do |name|
    ruby = name[%r{\Alib/lease_machines/(\d+\.\d+)/}, 1]
    place(ruby ? platform.binary(ruby) : name, "#{stage}/#{name}")
  end
  Platform::NOTICES.each do |name, script|
    sh(script, "lease_machines_native", platform.target, out: "#{stage}/#{name}", verbose: false)
    chmod 0o644, "#{stage}/#{name}", verbose: false
  end
  mkdir_p "pkg", verbose: false
  gem = File.expand_path(platform.gem_file(GEMSPEC.version))
  cd(stage, verbose: false) { Gem::Package.build(spec, false, true, gem) }
end

# What compiles it stays behind, and only the Rubies that there is a binary for may have it: others take the gem of sources.
def native_gemspec(platform)
  oldest, newest = Platform::RUBIES.minmax_by { |ruby| Gem::Version.new(ruby) }
  after = newest.sub(/\d+\z/, &:succ)
  GEMSPEC.dup.tap do |spec|
    spec.platform = platform.name
    spec.required_ruby_version = [">= #{oldest}", "< #{after}.dev"]
    spec.extensions = []
    spec.dependencies.reject! { |dependency| dependency.name == "rb_sys" }
    spec.files = [*GEMSPEC.files.grep_v(%r{\Aext/}), *Platform::NOTICES.keys,
                  *Platform::RUBIES.map { |ruby| "lib/lease_machines/#{ruby}/lease_machines_native.so" }].sort
  end
end

# The tests that are about the repository, and not about what is in the gem.
NOT_OF_THE_GEM = %w[extconf release version].freeze
# Those that load so much that the collector's tests would take minutes beside them.
HEAVY = %w[documentation signature].freeze

def verify_native_gem(platform, version, suite:)
  puts "\n#{platform.name}, Ruby #{version}"
  gem = platform.gem_file(GEMSPEC.version)
  platform.on_empty_machine(version) do |folder, run|
    mkdir_p ["#{folder}/home", "#{folder}/elsewhere"], verbose: false
    cp [gem, "test/package/smoke.rb"], "#{folder}/elsewhere", verbose: false
    run.("elsewhere", "-S", "gem", "install", "--local", "--no-document", File.basename(gem))
    run.("elsewhere", "-w", "smoke.rb", "../home", GEMSPEC.version.to_s)
    run_suite(folder, run, "../home/gems/#{File.basename(gem, ".gem")}") if suite
  end
end

# The tests that read the sources read those of the gem; what they load comes from where RubyGems has it.
def run_suite(folder, run, installed)
  mkdir_p "#{folder}/suite/bench", verbose: false
  cp_r "test", "#{folder}/suite", verbose: false
  cp "bench/ruby_model.rb", "#{folder}/suite/bench", verbose: false
  %w[lib sig].each { |part| ln_s "#{installed}/#{part}", "#{folder}/suite/#{part}", verbose: false }
  tests = Dir["test/*_test.rb"].reject { |file| NOT_OF_THE_GEM.include?(file[/(\w+)_test/, 1]) }
  tests.partition { |file| HEAVY.include?(file[/(\w+)_test/, 1]) }.each do |files|
    run.("suite", "-w", "-Itest", "-e", "ARGV.each { |file| require File.expand_path(file) }", *files)
  end
end

CLEAN.include("tmp/native")
