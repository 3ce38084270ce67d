# frozen_string_literal: true

require "minitest/test_task"

desc "Run the tests, with warnings as errors"
Minitest::TestTask.create(:test) do |task|
  task.libs = %w[. lib test]
  task.warning = true
  task.test_globs = Dir["test/*_test.rb"] - BARE.map { |name| "test/#{name}_test.rb" }
end
task test: %i[compile test:bare]

desc "Run the tests of what the collector does to the native half"
task "test:bare" => :compile do
  BARE.each { |name| ruby(WITH_LITTLE, "-w", "-I#{MINITEST}", "-Ilib", "-Itest", "test/#{name}_test.rb") }
end

desc "Run the tests on servers, which they start for themselves"
Minitest::TestTask.create("test:servers") do |task|
  task.libs = %w[. lib test]
  task.warning = true
  task.test_globs = ["test/servers/*_test.rb"]
end
task "test:servers" => :compile

# The feature that no released gem has: a library that was built with all of them, as the tests in Rust are, comes before
# the one in lib/.
desc "Run the tests on etcd, with a native half that knows it"
task "test:etcd" do
  built = "tmp/etcd/lease_machines"
  sh "cargo", "build", "--workspace", "--all-features", "--locked", "--lib"
  mkdir_p built
  cp "target/debug/liblease_machines_native.#{RbConfig::CONFIG["SOEXT"]}",
     "#{built}/lease_machines_native.#{RbConfig::CONFIG["DLEXT"]}"
  ruby("-w", "-I.", "-Itmp/etcd", "-Ilib", "-Itest", "test/etcd/etcd_test.rb")
end

# Not those that look at the methods themselves, which the checks wrap, or run in Ractors, where the checks cannot, or under
# GC.stress, where they take for ever, or count what is collected, which the checks may have in hand.
UNCHECKED = %w[documentation extconf fiber frozen gc_stress interruption machine_id_end ractor release scripts
               signature version].freeze

desc "Run the tests with every call checked against sig/"
task "test:rbs" => :compile do
  files = Dir["test/*_test.rb"] - UNCHECKED.map { |name| "test/#{name}_test.rb" }
  ruby("-Ilib", "-Itest", "-r./test/rbs/checked.rb", "-e", "ARGV.each { |file| require File.expand_path(file) }", *files)
end

desc "Run the examples in the pages, in all three languages, and check what the pages say of the tests"
task "test:readme" => :compile do
  # The pages are in UTF-8, whatever the locale says.
  ruby("-w", "-EUTF-8", "-Ilib", "-Itest", "-e", "ARGV.each { |file| require File.expand_path(file) }",
       *Dir["test/pages/*_test.rb"])
end
