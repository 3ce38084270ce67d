# frozen_string_literal: true

desc "Write the documentation of the Ruby side to doc/"
task :docs do
  sh "yard", "doc"
end
CLOBBER.include("doc", ".yardoc")
