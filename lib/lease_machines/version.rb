# frozen_string_literal: true

module LeaseMachines
  # The version of the gem, and of the crates beside it.
  VERSION = "0.1.0"
end
