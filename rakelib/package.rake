# frozen_string_literal: true

# The gem that is published has the sources of the crates it is built from. It is put together in a folder of its own, so
# that the repository never has them twice.

require "English"
require "json"
require "tmpdir"
require_relative "native/platform"

STAGE = "tmp/package"
GEM_FILE = "pkg/lease_machines-#{GEMSPEC.version}.gem".freeze
NATIVE = "#{STAGE}/#{File.dirname(GEMSPEC.extensions.first)}".freeze

# The time in all gems is that of the commit, so that the same commit gives the same bytes.
task :epoch do
  ENV["SOURCE_DATE_EPOCH"] ||= IO.popen(%w[git log -1 --format=%ct], &:read).strip
  raise "no commit to take the time from; set SOURCE_DATE_EPOCH" if ENV["SOURCE_DATE_EPOCH"].empty?
end

desc "Copy what the gem is made of, with its crates, to #{STAGE}"
task :vendor do
  rm_rf STAGE, verbose: false
  files = ["lease_machines.gemspec", *GEMSPEC.files]
  files.each { |file| place(file, "#{STAGE}/#{file}") }
  crates = carried_crates
  crates.each { |crate| copy_crate(crate) }
  write_workspace(crates)
end

desc "Build the gem, sources and all, to pkg/"
task package: %i[epoch vendor] do
  mkdir_p "pkg", verbose: false
  # In a process of its own: the gemspec that is loaded here has listed the files before they were copied.
  sh RbConfig.ruby, "-S", "gem", "build", "--strict", "--output", File.expand_path(GEM_FILE), "lease_machines.gemspec",
     chdir: STAGE
end

desc "Install the built gem into an empty home, and run a smoke test from another folder"
task "verify:source" => :package do
  Dir.mktmpdir("lease_machines") do |empty|
    home = File.join(empty, "home")
    elsewhere = File.join(empty, "elsewhere")
    mkdir_p [home, elsewhere], verbose: false
    # Nothing of this checkout may help: neither its folder nor what the environment says of it.
    clean = { "GEM_HOME" => home, "GEM_PATH" => nil, "RUBYLIB" => nil, "RUBYOPT" => nil, "BUNDLE_GEMFILE" => nil,
              "CARGO_TARGET_DIR" => nil, "RB_SYS_CARGO_MANIFEST_DIR" => nil, "RB_SYS_CARGO_TARGET_DIR" => nil }
    sh clean, RbConfig.ruby, "-S", "gem", "install", "--local", "--no-document", File.expand_path(GEM_FILE),
       chdir: elsewhere
    cp "test/package/smoke.rb", elsewhere, verbose: false
    sh clean, RbConfig.ruby, "-w", "smoke.rb", home, GEMSPEC.version.to_s, chdir: elsewhere
  end
  puts "  #{File.basename(GEM_FILE)}: #{File.size(GEM_FILE)} bytes, #{Gem::Package.new(GEM_FILE).contents.size} files"
end

desc "Build the gem once more, elsewhere and under other circumstances, and compare"
task "verify:reproducible" => :package do
  ruby("-w", "test/package/reproducible.rb", GEM_FILE, "package")
end

desc "Verify the gem of sources and, where there is apt-get, those that have something compiled; print their figures"
task verify: ["verify:source", "verify:reproducible", *("verify:native" if Platform.packages?)]

CLEAN.include(STAGE)
CLOBBER.include("pkg")

# Copies a file into a gem: there it may be read by all, whatever it may here.
def place(from, to)
  mkdir_p File.dirname(to), verbose: false
  FileUtils.install from, to, mode: 0o644
end

# The crates of this workspace that the native half is built from: itself, and what it depends on by path.
def carried_crates
  metadata = JSON.parse(cargo("metadata", "--format-version", "1", "--locked", "--no-deps", chdir: ROOT))
  by_folder = metadata.fetch("packages").to_h { |crate| [File.dirname(crate.fetch("manifest_path")), crate] }
  carried = [by_folder.fetch(File.join(ROOT, "ffi"))]
  carried.each do |crate|
    crate.fetch("dependencies").each do |dependency|
      found = dependency["path"] && dependency["kind"].nil? && by_folder.fetch(dependency["path"])
      carried << found if found && !carried.include?(found)
    end
  end
  carried.map { |crate| File.dirname(crate.fetch("manifest_path")).delete_prefix("#{ROOT}/") }.sort
end

# A table of a manifest, with the comment above it.
TABLE = /(?:^#[^\n]*\n)*^\[.*?(?=(?:^#[^\n]*\n)*^\[|\z)/m
ONLY_FOR_TESTS = /^\[(?:\[(?:test|example|bench)\]|(?:target\..*\.)?dev-dependencies)\]/

# What is only there for tests stays behind, and with it what the manifest says of it.
def copy_crate(crate)
  files = FileList["#{crate}/src/**/*.{rs,sql,lua}", "#{crate}/*.{rs,toml}", "#{crate}/README*"]
  files.each { |file| place(file, "#{NATIVE}/#{file}") }
  manifest = "#{NATIVE}/#{crate}/Cargo.toml"
  File.write(manifest, File.read(manifest, encoding: "UTF-8").scan(TABLE).grep_v(ONLY_FOR_TESTS).join)
end

# The workspace as it is, with those members alone, and a lock file without what only the others need.
def write_workspace(crates)
  manifest = File.read("Cargo.toml")
  narrowed = manifest.sub(/^members = \[.*?\]/m, "members = #{crates.inspect}")
  raise "Cargo.toml has no list of members to narrow" if narrowed == manifest

  File.write("#{NATIVE}/Cargo.toml", narrowed)
  cp "Cargo.lock", NATIVE, verbose: false
  # Without --locked, Cargo drops from the lock file what nothing asks for, and changes nothing else.
  cargo("metadata", "--format-version", "1", "--offline", chdir: NATIVE)
  before, after = ["Cargo.lock", "#{NATIVE}/Cargo.lock"].map { |file| locked_crates(file) }
  chmod 0o644, ["#{NATIVE}/Cargo.toml", "#{NATIVE}/Cargo.lock"], verbose: false
  added = after - before
  raise "the gem's lock file has what the repository's has not: #{added.join(", ")}" unless added.empty?

  puts "carrying #{crates.join(", ")}, with #{after.size} of #{before.size} locked crates"
end

# Each with its version and its checksum, which the crates of this workspace have not.
def locked_crates(file)
  File.read(file).split("[[package]]").drop(1).map { |crate| crate.scan(/^(?:name|version|checksum) = "(.*)"$/).join(" ") }
end

def cargo(*arguments, chdir:)
  output = IO.popen(["cargo", *arguments, { chdir: chdir }], &:read)
  raise "cargo #{arguments.join(" ")} failed" unless $CHILD_STATUS.success?

  output
end
