# frozen_string_literal: true

require "socket"
require_relative "on_a_server"

class PostgresTest < Minitest::Test
  include OnAServer

  SERVER = PostgresServer
  ELSEWHERE = ->(server) { "#{server.url}?schema=elsewhere" }
end

class MariadbTest < Minitest::Test
  include OnAServer

  SERVER = MariadbServer
  ELSEWHERE = ->(server) { server.url.sub(/leases\z/, "mysql") }
end

class RedisTest < Minitest::Test
  include OnAServer

  SERVER = RedisServer
  ELSEWHERE = ->(server) { "#{server.url}?namespace=elsewhere" }
end

# One that takes connections, and says nothing.
class SilentServerTest < Minitest::Test
  URLS = %w[postgres://me@%s/x redis://%s mysql://me:@%s/x].freeze

  def setup
    @server = TCPServer.new("127.0.0.1", 0)
    @address = "127.0.0.1:#{@server.addr[1]}"
  end

  def teardown
    @server.close
  end

  URLS.each do |url|
    scheme = url[/\A\w+/]
    define_method(:"test_#{scheme}_gives_up_at_its_time_out") do
      leases = LeaseMachines.open("#{format(url, @address)}?timeout=200ms")
      error = assert_raises(NotDone, Unknown) { leases.acquire("job", ttl: 60) }

      assert_includes %i[unreachable busy], error.kind
      assert_match(/#{Regexp.escape(@address)}|127\.0\.0\.1/, error.message)
    end

    define_method(:"test_#{scheme}_can_be_interrupted") do
      late = %i[acquire migrate].map do |call|
        begun = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        assert_raises(Timeout::Error) do
          Timeout.timeout(0.05) do
            where = "#{format(url, @address)}?timeout=60s"
            call == :migrate ? LeaseMachines.migrate(where) : LeaseMachines.open(where).acquire("job", ttl: 60)
          end
        end
        Process.clock_gettime(Process::CLOCK_MONOTONIC) - begun - 0.05
      end

      assert_operator late.min, :<=, 0.05
    end
  end

  def test_tls_is_tried_where_it_is_asked_for
    URLS.zip(%w[sslmode=require tls ssl_mode=required]).each do |url, option|
      where = option == "tls" ? format(url, @address).sub("redis:", "rediss:") : "#{format(url, @address)}?#{option}"
      leases = LeaseMachines.open(where, timeout: 0.2)
      error = assert_raises(NotDone, Unknown, where) { leases.acquire("job", ttl: 60) }

      assert_includes %i[unreachable busy], error.kind, error.message
    end
  end
end
