# frozen_string_literal: true

require "uri"

module LeaseMachines # rubocop:disable Style/Documentation
  class << self
    # Opens the store at a URL.
    #
    #   leases = LeaseMachines.open("sqlite::memory:", timeout: 2) # in earnest a file, or a server
    #   decision = leases.acquire("nightly-report", ttl: 60)
    #   leases.release("nightly-report", owner: decision.lease.owner, token: decision.lease.token) if decision.granted?
    #
    # docs/stores.md has the URLs and their options. What is in +options+ counts as if it stood in the URL; +true+ and
    # +false+ stand for 1 and 0, and a length of time may be a number of seconds or an +ActiveSupport::Duration+.
    #
    # With a block it is closed at the end of the block, whose value is returned.
    #
    # @param url [String] +sqlite:PATH+, from the folder that is the current one now, +sqlite::memory:+, or one of the other
    #   engines'
    # @param create [Boolean] whether a file that is missing or empty is set up; a server is set up by {migrate} alone
    # @param options [Hash{Symbol => Object}]
    # @yieldparam leases [Store]
    # @return [Store, Object]
    # @raise [ConfigurationError] where the URL is nil, empty or wrong
    # @raise [StoreError] where the store cannot be opened
    def open(url, create: true, **options)
      leases = Store.__send__(:_open, Store.__send__(:_url, url, options), create ? true : false)
      return leases unless block_given?

      begin
        yield leases
      ensure
        leases.close
      end
    end

    # Creates or upgrades the tables of the store at a URL, whatever else is in that database. Any number of processes may
    # do it at once.
    #
    # @param url [String] as for {open}
    # @param options [Hash{Symbol => Object}]
    # @return [Symbol] +:set_up+; +:up_to_date+ where they were there; +:upgraded+ where parts of them were missing or older
    # @raise [StoreError]
    def migrate(url, **options) = Store.__send__(:_migrate, Store.__send__(:_url, url, options))

    # @!scope class
    # @!method fresh_owner
    #   A new owner, to name in {Store#acquire}: 64 random bits of the operating system's, for one hold and no other.
    #   @return [Integer]
    # @!method now
    #   The clock of {Lease#expires_at} for what a {Store} has granted: since the machine was started, sleep included.
    #   @return [Float] seconds
  end

  # Leases in a store that others use, too: decided where the data is, by the store's own clock, and durable before they are
  # answered. {LeaseMachines.open} opens one.
  #
  # Every call is answered by a decision, or raises a {StoreError} that says what is known instead. While it waits other
  # threads run, and under a Fiber scheduler other fibers. +Timeout+, +Thread#kill+ and signals end it at once; what it has
  # asked for may have been done then.
  #
  # The decisions are those of {Authority}, with these differences. +expires_at+ is by {LeaseMachines.now}, counted from
  # before the store was asked, so that it lies before the store's own deadline. Tokens have 16 digits. And a decision of a
  # store's also has {Decision#epoch}, and where it was rejected {Decision#occupant} and {Decision#vacated}.
  #
  # Names are Strings of 1 to 255 bytes of UTF-8 without NUL, compared byte by byte; anything else is an +ArgumentError+.
  # Lengths of time are seconds, as a number or an +ActiveSupport::Duration+; a ttl is exact from a millisecond on, rounded
  # up to the next, and {Refused} above the store's +max_ttl+.
  #
  # A store is not shared between Ractors; each opens its own.
  class Store
    include Uncopyable

    class << self
      private :new

      private

      def _url(url, options)
        raise ConfigurationError, "the URL of a store is nil; expected a String such as sqlite:leases.db" if url.nil?
        raise TypeError, "url must be a String, not #{url.class}" unless url.is_a?(String)
        raise ConfigurationError, "the URL of a store is empty; expected one such as sqlite:leases.db" if url.empty?
        return url if options.empty?

        written = options.map { |name, value| "#{URI.encode_uri_component(name.to_s)}=#{_option(name, value)}" }.join("&")
        "#{url}#{url.include?("?") ? "&" : "?"}#{written}"
      end

      def _option(name, value)
        text = case Seconds.of(value)
               when true then "1"
               when false then "0"
               when Integer, String, Symbol then value.to_s
               when Float, Rational then "#{(Seconds.of(value) * 1000).ceil}ms"
               else raise TypeError, "option #{name} must be a String, a number, true or false, not #{value.class}"
               end
        URI.encode_uri_component(text)
      end
    end

    # Takes a resource if it is free: +:granted+, for +ttl+ seconds, under a token greater than all before it. Otherwise
    # +:invalid_ttl+, +:occupied+ or +:tokens_exhausted+.
    #
    # Without +owner+ one is drawn, and stands in the lease that is granted. What nobody can be told of then, because the
    # call was interrupted or the store's answer was lost, is taken back. Whoever names the owner can ask again with
    # {#reacquire}, or {#withdraw}.
    #
    # @param resource [String]
    # @param ttl [Numeric] seconds
    # @param owner [Integer, nil] {LeaseMachines.fresh_owner}, for this hold and no other
    # @param attempt [Integer] counts this owner's requests for the resource, from 1; one that is not greater than an
    #   earlier one is its echo: it changes nothing, and is answered with what was granted then, or with {NotDone}
    # @param epoch [String, nil] where it is not the store's, nothing is granted
    # @param label [String, nil] shown to people who ask who holds the resource
    # @param identity [String, nil] a name for the claimant that survives restarts
    # @return [Decision]
    # @raise [StoreError]
    def acquire(resource, ttl:, owner: nil, attempt: 1, epoch: nil, label: nil, identity: nil)
      Decision._of(_claim(false, resource, owner, Seconds.of(ttl), attempt, epoch, label, identity))
    end

    # As {#acquire}, but the owner's own live lease does not stand in its way: it is replaced by one under a greater token.
    # So an {#acquire} that went unanswered is repeated, with the next attempt.
    #
    # @param resource [String]
    # @param owner [Integer]
    # @param ttl [Numeric] seconds
    # @param attempt [Integer]
    # @param epoch [String, nil]
    # @param label [String, nil]
    # @param identity [String, nil]
    # @return [Decision]
    # @raise [StoreError]
    def reacquire(resource, owner:, ttl:, attempt:, epoch: nil, label: nil, identity: nil)
      raise TypeError, "owner must be an Integer, not nil" if owner.nil?

      Decision._of(_claim(true, resource, owner, Seconds.of(ttl), attempt, epoch, label, identity))
    end

    # Extends a lease: +:renewed+, under the same token, for the longer of what is left and +ttl+. Otherwise +:invalid_ttl+,
    # +:vacant+, +:wrong_owner+, +:stale_token+ or +:expired+.
    #
    # Owner, token and epoch are those of the grant, as they came, and none that a person has typed: a token of the store's
    # own epoch that it never issued proves to it that it has lost history. It opens a new epoch then, which ends every
    # lease. Without +epoch+ it draws no such conclusion; the command +lease+ looks first.
    #
    # @param resource [String]
    # @param owner [Integer]
    # @param token [Integer]
    # @param ttl [Numeric] seconds
    # @param epoch [String, nil] the {Decision#epoch} that the lease was granted in
    # @return [Decision]
    # @raise [StoreError]
    def renew(resource, owner:, token:, ttl:, epoch: nil)
      Decision._of(_renew(resource, owner, token, Seconds.of(ttl), epoch))
    end

    # Gives a lease back: +:released+, also where this very lease was given back before. Otherwise +:vacant+,
    # +:wrong_owner+, +:stale_token+ or +:expired+. What is said of tokens under {#renew} holds here, too.
    #
    # @param resource [String]
    # @param owner [Integer]
    # @param token [Integer]
    # @param epoch [String, nil]
    # @param result [Symbol, nil] what became of the work, for the history: +:good+ or +:failed+
    # @return [Decision]
    # @raise [StoreError]
    def release(resource, owner:, token:, epoch: nil, result: nil)
      Decision._of(_release(resource, owner, token, epoch, result))
    end

    # Vacates whatever this owner holds on the resource, without its token, and makes every request that the owner has sent
    # before, and that is still on its way, come to nothing: +:released+, or +:rejected+ where there is nothing to vacate.
    # The owner cannot take the resource again.
    #
    # @param resource [String]
    # @param owner [Integer]
    # @return [Decision]
    # @raise [StoreError]
    def withdraw(resource, owner:) = Decision._of(_withdraw(resource, owner))

    # The operator's break, as {Authority#revoke}: vacates the resource, live lease or not, and burns one token, which it
    # returns. Whoever held it hears of it with the next request, and may act until its own deadline.
    #
    # @param resource [String]
    # @param expect [Integer, nil] the token of the lease that is meant
    # @param reason [String, nil] why, for the history
    # @return [Integer, Decision] the burnt token, or the rejection: +:vacant+, +:stale_token+ or +:tokens_exhausted+
    # @raise [StoreError]
    def revoke(resource, expect: nil, reason: nil)
      answer = _revoke(resource, expect, reason)
      answer.is_a?(Integer) ? answer : Decision._of(answer)
    end

    # How a resource stands.
    #
    # @param resource [String]
    # @return [Inspection]
    # @raise [StoreError]
    def show(resource) = Inspection._of(_show(resource))

    # How all resources stand whose names begin with +prefix+, in the byte order of their names.
    #
    # @param prefix [String]
    # @return [Array<Inspection>]
    # @raise [StoreError]
    def list(prefix = "") = _list(prefix).map { Inspection._of(_1) }

    # Who held a resource, the latest first.
    #
    # @param resource [String]
    # @param limit [Integer] how many rows at most
    # @return [Array<HistoryEntry>]
    # @raise [StoreError]
    def history(resource, limit: 100) = _history(resource, limit).map { HistoryEntry.new(*_1) }

    # Forgets resources that nobody has held for this long, and history that old. No token ever goes down by it, and the
    # last good end of a resource is kept.
    #
    # @param older_than [Numeric] seconds
    # @return [Pruned]
    # @raise [StoreError]
    def prune(older_than:) = Pruned.new(*_prune(Seconds.of(older_than)))

    # Returns when a resource may be free, or +limit+ has passed: a hint to ask again, never a promise.
    #
    # @param resource [String]
    # @param limit [Numeric] seconds
    # @return [nil]
    # @raise [StoreError]
    def wait(resource, limit:) = _wait(resource, Seconds.of(limit))

    # The identity of the store's history.
    #
    # @return [String] 16 hexadecimal digits
    # @raise [StoreError]
    def epoch = _epoch

    # Opens a new epoch, and so ends every lease: for an operator who has put a backup back, or knows of another loss that
    # the store cannot see. Where the store is in another epoch than +instead_of+ by now, nothing is done.
    #
    # @param instead_of [String] the {#epoch} that is to end
    # @param old_holders_are_dead [Boolean] nobody acts under the old leases any more: grants begin at once, and not only
    #   after the longest ttl
    # @param above [Integer, nil] a token that a fence has seen
    # @return [String] the epoch that the store is in afterwards
    # @raise [StoreError]
    def open_epoch(instead_of:, old_holders_are_dead: false, above: nil)
      _open_epoch(instead_of, old_holders_are_dead ? true : false, above)
    end

    # Looks for what weakens the store's promises here and now, the worst first.
    #
    # @return [Array<Finding>]
    # @raise [StoreError]
    def doctor = _doctor.map { Finding.new(*_1) }

    # Which engine it is.
    #
    # @return [String] +"sqlite"+, +"postgres"+, +"mysql"+, +"redis"+ or +"etcd"+
    # @raise [StoreError]
    def engine = _engine

    # Closes it, and waits for that. Every later call is a {ConfigurationError}. Leases that were granted go on to their
    # ends.
    #
    # @return [nil]
    def close = _close

    # Without the URL, which may have a password in it.
    # @return [String]
    def inspect = "#<#{self.class}>"
    alias to_s inspect
  end
end
