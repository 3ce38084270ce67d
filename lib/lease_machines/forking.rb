# frozen_string_literal: true

module LeaseMachines # rubocop:disable Style/Documentation
  # What is done around a fork. An SQLite file that is open then could not be opened by the child: it is closed before, and
  # opened again by whoever uses its store next. Stores on servers notice by themselves.
  #
  # @api private
  module Forking
    # What Kernel#fork, Process.fork and IO.popen("-") call.
    # @api private
    def _fork = Forking.around { super }

    # It forks without calling _fork.
    # @api private
    def daemon(...) = Forking.around { super }

    # @api private
    def self.around
      files = Store.__send__(:_before_fork)
      Store.__send__(:_close_files) if files
      yield
    ensure
      Store.__send__(:_after_fork) unless files.nil?
    end
  end
  private_constant :Forking
  Process.singleton_class.prepend(Forking)
end
