# frozen_string_literal: true

# Run by `rake verify:native`: ruby native_gem.rb PLATFORM GEM. Looks at a gem with compiled binaries from outside, on any
# machine, and prints its figures.

require "json"
require "minitest/autorun"
require "open3"
require "rubygems/package"
require "tmpdir"
require_relative "../../rakelib/native/platform"

NAME, GEM = ARGV.shift(2)
PLATFORM = Platform.named(NAME)

class NativeGemTest < Minitest::Test
  PACKAGE = Gem::Package.new(GEM)
  SPEC = PACKAGE.spec
  UNPACKED = Dir.mktmpdir
  PACKAGE.extract_files(UNPACKED)
  Minitest.after_run { FileUtils.rm_rf(UNPACKED) }

  BINARIES = Platform::RUBIES.to_h { |ruby| [ruby, "lib/lease_machines/#{ruby}/lease_machines_native.so"] }.freeze
  MACHINES = { "x86_64" => /X86-64/, "aarch64" => /AArch64/ }.freeze

  def test_it_says_whom_it_is_for
    assert_equal PLATFORM.name, SPEC.platform.to_s
    refused, taken = %w[3.2.9 3.3.0 3.3.99 3.4.0 3.4.99 3.5.0.dev 3.5.0 4.0.0].partition do |ruby|
      !SPEC.required_ruby_version.satisfied_by?(Gem::Version.new(ruby))
    end

    assert_equal %w[3.3.0 3.3.99 3.4.0 3.4.99], taken
    assert_equal %w[3.2.9 3.5.0.dev 3.5.0 4.0.0], refused
  end

  # Whoever has no compiler must not be asked for one.
  def test_nothing_is_compiled_where_it_is_installed
    assert_empty SPEC.extensions
    assert_empty SPEC.runtime_dependencies
  end

  def test_it_carries_what_it_should_and_nothing_else
    sources = Dir["{lib,sig}/**/*.{rb,rbs}", base: Platform::ROOT]
    pages = %w[README.md CHANGELOG.md LICENSE.txt .yardopts THIRD-PARTY.txt sbom.cdx.json]

    assert_equal (sources + pages + BINARIES.values).sort, PACKAGE.contents.sort
    PACKAGE.contents.each do |name|
      assert_equal 0o644, File.stat("#{UNPACKED}/#{name}").mode & 0o777, name
    end
  end

  # Both are made anew with each gem. This asks somebody else: Cargo, for what it links and what that is built with.
  def test_it_names_all_that_is_linked_in
    linked = crates("normal,no-proc-macro")
    notices = File.read("#{UNPACKED}/THIRD-PARTY.txt")
    named = notices[/\n\n(.*?)\n\n/m, 1].scan(/^([\w-]+ \d[\w.+-]*): /).flatten

    assert_equal linked.grep_v(/\Alease[-_]machines/), named
    named.each { |crate| assert_match(/^.*Licen[cs]e.*\(.*#{Regexp.escape(crate)}.*\)\n\n./, notices, crate) }
    assert_match(/^the Rust standard library: /, notices)

    bill = JSON.parse(File.read("#{UNPACKED}/sbom.cdx.json"))
    listed = bill.fetch("components").map { |part| part.values_at("name", "version").join(" ") }

    assert_equal %w[CycloneDX 1.5], bill.values_at("bomFormat", "specVersion")
    assert_equal crates("normal").grep_v(/\Alease_machines_native /), listed.sort
    licences = notices[/\n\n(.*?)\n\n/m, 1].scan(/^[\w-]+ \d\S*: (.*)$/).flatten.flat_map { |ids| ids.split(", ") }
    puts "  #{PLATFORM.name}: #{named.size} crates linked in, under #{licences.uniq.sort.join(", ")} (THIRD-PARTY.txt); " \
         "a bill of materials with #{listed.size} components (sbom.cdx.json)"
  end

  def test_what_it_says_of_itself
    assert_equal "true", SPEC.metadata["rubygems_mfa_required"]
    assert_equal "MIT", SPEC.license
  end

  BINARIES.each do |ruby, name|
    define_method(:"test_the_binary_for_ruby_#{ruby}") do
      file = "#{UNPACKED}/#{name}"
      needed = read("--dynamic", file).scan(/\(NEEDED\).*\[(.*)\]/).flatten
      glibc = read("--version-info", file).scan(/\bGLIBC_([\d.]+)/).flatten.max_by { |version| Gem::Version.new(version) }
      exported = exports(file)

      puts "  #{PLATFORM.name}, Ruby #{ruby}: #{File.size(file)} bytes, needs #{"glibc #{glibc}, " if glibc}" \
           "#{needed.join(" ")}, shows #{exported.join(" ")}"

      assert_match MACHINES.fetch(PLATFORM.name[/\A[^-]+/]), read("--file-header", file)
      if PLATFORM.musl?
        assert_nil glibc
      else
        assert_operator Gem::Version.new(glibc), :<=, Gem::Version.new(Platform::GLIBC)
      end
      refute_empty needed
      assert_empty needed.grep_v(PLATFORM.libraries)
      assert_equal Platform::EXPORTS, exported
      assert_operator File.size(file), :<=, Platform::BINARY_LIMIT
      refute_match(/\.symtab|\.debug/, read("--section-headers", file), "it is not stripped")
    end

    define_method(:"test_the_binary_for_ruby_#{ruby}_does_not_say_where_it_was_built") do
      content = File.binread("#{UNPACKED}/#{name}")

      [Platform::ROOT, Dir.home].each { |folder| refute_includes content, "#{folder}/" }
    end
  end

  def test_no_page_says_where_it_was_built
    PACKAGE.contents.grep_v(/\.so\z/).each do |name|
      [Platform::ROOT, Dir.home].each { |folder| refute_includes File.read("#{UNPACKED}/#{name}"), "#{folder}/", name }
    end
  end

  def test_its_size
    puts "  #{File.basename(GEM)}: #{File.size(GEM)} bytes"

    assert_operator File.size(GEM), :<=, Platform::GEM_LIMIT
  end

  private

  def exports(file)
    read("--dyn-syms", file).scan(/ (?:GLOBAL|WEAK) +DEFAULT +\d+ (\w+)/).flatten.sort
  end

  def crates(edges)
    output, status = Open3.capture2("cargo", "tree", "--locked", "--package", "lease_machines_native",
                                    "--target", PLATFORM.target, "--edges", edges, "--prefix", "none", "--format", "{p}",
                                    chdir: Platform::ROOT)

    assert_predicate status, :success?
    output.scan(/^(\S+) v(\S+)/).map { |crate| crate.join(" ") }.uniq.sort
  end

  def read(what, file)
    output, status = Open3.capture2("readelf", "--wide", what, file)

    assert_predicate status, :success?
    output
  end
end
