# frozen_string_literal: true

# The gems that have the native half compiled already: one for each platform, with a binary for each minor version of Ruby.

require "etc"
require_relative "native/platform"

SOURCES = FileList["Cargo.{toml,lock}", "{core,ffi,machine-id,os,store}/Cargo.toml",
                   "{core,ffi,machine-id,os,store}/src/**/*.{rs,sql,lua}", "script/requirements.txt",
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
  task "verify:native:#{platform.name}" => platform.task do
    verify_native_gems([platform])
  end
end

desc "Build the gems for all platforms"
task native: Platform::ALL.map(&:task)

# Rubies for musl are in no package. They are compiled first, which takes minutes for each, so these stand apart.
{ "verify:native" => :reject, "verify:musl" => :select }.each do |name, selection|
  platforms = Platform::ALL.public_send(selection, &:musl?)
  desc "Verify the gems for #{platforms.map(&:name).join(" and ")}"
  task name => platforms.map(&:task) do
    verify_native_gems(platforms)
  end
end

# One platform stands for all: what could differ is the same for each.
desc "Compile and build the gem for #{Platform::ALL.first.name} once more, elsewhere, and compare"
task "verify:native:reproducible" => Platform::ALL.first.task do
  platform = Platform::ALL.first
  ruby("-w", "test/package/reproducible.rb", platform.gem_file(GEMSPEC.version), "native:#{platform.name}")
end

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
NOT_OF_THE_GEM = %w[extconf release scripts version].freeze
# The Rubies for musl have no compiled gems: neither rbs, by which types are tested, nor bigdecimal, which left with 3.4.
NOT_ON_MUSL = { "3.3" => %w[signature], "3.4" => %w[arguments signature store] }.freeze
# A child that qemu-user forks from a program with threads, which a store has, gets none of its own: it waits for ever. And
# what it runs cannot execute a Ruby of its kind, as the tests of interruptions do to lock a file.
NOT_UNDER_EMULATION = %w[fork_race interruption machine_id_fork store_fork].freeze
# Those that take longest. Each set has a process, and the longest comes first.
SETS = [BARE, %w[documentation signature]].freeze

def verify_native_gems(platforms)
  platforms.each do |platform|
    ruby("-w", "-EUTF-8", "test/package/native_gem.rb", platform.name, platform.gem_file(GEMSPEC.version))
  end
  tests = Dir["test/*_test.rb"].map { |file| File.basename(file, "_test.rb") } - NOT_OF_THE_GEM
  sets = [*SETS, tests - SETS.flatten]
  machines = platforms.sort_by { |platform| platform.emulated? ? 0 : 1 }.flat_map do |platform|
    Platform::RUBIES.each_with_index.flat_map do |version, index|
      # A suite takes minutes under emulation: there it is run once, and the other Rubies have the smoke test.
      suite = platform.emulated? && index.positive? ? [[]] : sets
      left_out = [*(NOT_ON_MUSL.fetch(version) if platform.musl?), *(NOT_UNDER_EMULATION if platform.emulated?)]
      suite.map { |names| [platform, version, names - left_out] }
    end
  end
  in_parallel(machines) { |platform, version, names| try_native_gem(platform, version, names) }
end

# Installs the gem on an empty machine, and runs the smoke test and these tests.
def try_native_gem(platform, version, names)
  gem = platform.gem_file(GEMSPEC.version)
  platform.on_empty_machine(version) do |folder, run|
    mkdir_p ["#{folder}/home", "#{folder}/elsewhere", "#{folder}/suite/bench"], verbose: false
    cp [gem, "test/package/smoke.rb"], "#{folder}/elsewhere", verbose: false
    run.("elsewhere", "-S", "gem", "install", "--local", "--no-document", File.basename(gem))
    run.("elsewhere", "-w", "smoke.rb", "../home", GEMSPEC.version.to_s)
    next if names.empty?

    cp_r "test", "#{folder}/suite", verbose: false
    cp_r MINITEST, "#{folder}/suite/minitest", verbose: false
    cp "bench/ruby_model.rb", "#{folder}/suite/bench", verbose: false
    # The tests that read the sources read those of the gem; what they load comes from where RubyGems has it.
    %w[lib sig].each { |part| ln_s "../home/gems/#{File.basename(gem, ".gem")}/#{part}", "#{folder}/suite", verbose: false }
    bare = names == BARE ? [WITH_LITTLE, "-Iminitest", "-Ilib"] : []
    run.("suite", *bare, "-w", "-Itest", "-e", "ARGV.each { |name| require File.expand_path(name) }",
         *names.map { |name| "test/#{name}_test.rb" })
  end
end

# As many at once as there are processors; the first that fails ends it.
def in_parallel(items)
  queue = Queue.new(items).close
  workers = Array.new(Etc.nprocessors) do
    Thread.new do
      Thread.current.report_on_exception = false
      while (item = queue.pop)
        yield item
      end
    rescue StandardError
      queue.clear
      raise
    end
  end
  workers.each(&:join)
end

CLEAN.include("tmp/native")
