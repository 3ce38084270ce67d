# frozen_string_literal: true

module LeaseMachines
  class MachineId
    CallOptions = Data.define(:limit, :last_used)

    # What a strategy that is written in Ruby is told about a call.
    #
    # @!attribute [r] limit
    #   @return [Float] for how many seconds the answer is waited for
    # @!attribute [r] last_used
    #   @return [Float, nil] when a lease is released: the last stamp that was used under it, in seconds since Unix's origin
    class CallOptions
    end

    # Does in Ruby what a manager wants of Ruby: the calls of a strategy that is written in it, each in a thread of its own,
    # and notices, in the order in which they come. Neither it nor its threads know the MachineId, so that one that is
    # forgotten ends.
    #
    # @api private
    class Attendant
      KINDS = { Exhausted => :exhausted, Refused => :refused, Misconfigured => :misconfigured, LeaseLost => :lost }.freeze

      def self.start(inbox, strategy, listeners) = new(inbox, strategy, listeners).start

      def initialize(inbox, strategy, listeners)
        @inbox = inbox
        @strategy = strategy
        @on_lost, @on_event = listeners
        @leases = {}
        @notices = Thread::Queue.new
      end

      def start
        thread("lease-id-notices") { while (notice = @notices.pop) do tell(notice) end }
        thread("lease-id-calls") { attend }
      rescue ThreadError
        @notices.close
        raise
      end

      private

      def attend
        while (message = @inbox.take)
          case message
          when Call then hand_over(message)
          when Integer then @leases.delete(message)
          else @notices << Notice.new(*message)
          end
        end
      ensure
        @inbox.refuse
        @notices.close
      end

      # Where there is no thread for it, nobody was asked.
      def hand_over(call)
        thread("lease-id-call") { answer(call) }
      rescue ThreadError => error
        call.failed(:unreachable, said(error))
      end

      # What is raised here was raised by somebody's strategy; whatever it was, the manager is told. One answer counts: the
      # first.
      def answer(call)
        name, from, to, duration, limit, last_used = call.wanted
        options = CallOptions.new(limit, last_used)
        case name
        when :acquire then acquired(call, to, @strategy.acquire(duration, options))
        when :renew then renewed(call, from, to, duration, options)
        when :release
          give_back(@leases[from], options)
          call.released
        end
      rescue Exception => error # rubocop:disable Lint/RescueException
        kind = KINDS.find { |known, _| known === error }&.last || :unreachable # rubocop:disable Style/CaseEquality
        failed = call.failed(kind, said(error))
      ensure
        take_back(name, to, options) if failed || call.failed(:unreachable, "its thread was killed")
      end

      # For people. It may be of any encoding, or of none, and whatever makes it may fail: the kind is told all the same.
      def said(error)
        "#{error.class}: #{error.message.encode(Encoding::UTF_8, invalid: :replace, undef: :replace)}"
      rescue Exception # rubocop:disable Lint/RescueException
        "an exception whose message cannot be told"
      end

      # Kept before the manager is told, which may want it back at once. It says when it is to be forgotten, if it was told.
      def acquired(call, number, (machine_id, lease, ttl))
        @leases[number] = lease
        call.acquired(machine_id, Seconds.of(ttl))
      end

      def renewed(call, from, number, duration, options)
        lease = @leases[from]
        lease, ttl = @strategy.respond_to?(:renew) ? @strategy.renew(lease, duration, options) : [lease, duration]
        @leases[number] = lease
        call.renewed(Seconds.of(ttl))
      end

      # Nobody holds what could not be told. After a renewal the manager goes on from the old lease, which may be the same.
      def take_back(name, number, options)
        lease = @leases.delete(number)
        give_back(lease, options) unless lease.nil? || name == :renew
      end

      def give_back(lease, options)
        @strategy.release(lease, options) if @strategy.respond_to?(:release)
      end

      def tell(notice)
        listen { @on_lost&.call(notice) } if notice.name == :lost
        listen { @on_event&.call(notice) }
        listen do
          if defined?(ActiveSupport::Notifications)
            ActiveSupport::Notifications.instrument("#{notice.name}.machine_id.lease_machines", notice.to_h)
          end
        end
      end

      # What one raises, another hears none the less, and itself of the next. But to exit is to exit.
      def listen
        yield
      rescue SystemExit
        raise
      rescue Exception => error # rubocop:disable Lint/RescueException
        complain("lease_machines: a listener to a machine ID raised #{said(error)}")
      end

      # Who would be told that this cannot be told?
      def complain(message)
        warn message
      rescue Exception # rubocop:disable Lint/RescueException
        nil
      end

      def thread(name, &)
        Thread.new(&).tap do |thread|
          thread.name = name
          thread.report_on_exception = true
        end
      end
    end
    private_constant :Attendant
  end
end
