# frozen_string_literal: true

require_relative "../servers/on_a_server"

# What the gem does where it was compiled with the feature `etcd`, which no released one is.
class EtcdTest < Minitest::Test
  include OnAServer

  SERVER = EtcdServer
  ELSEWHERE = ->(server) { server.url.sub(/leases\z/, "elsewhere") }
end
