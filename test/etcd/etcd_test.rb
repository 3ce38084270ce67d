# frozen_string_literal: true

require_relative "../servers/on_a_server"

# What the gem does where it was compiled with the feature `etcd`, which no released one is.
class EtcdTest < Minitest::Test
  include OnAServer

  SERVER = EtcdServer
  ELSEWHERE = ->(server) { server.url.sub(/leases\z/, "elsewhere") }

  # It keeps none, and says so at once.
  def test_processes_of_a_pool_have_a_machine_id_each
    pool = MachineId::PoolLease.new(store: @leases, pool: @job, size: 3)
    none = assert_raises(MachineId::StartError) { MachineId.start(strategy: pool) }

    assert_equal :misconfigured, none.reason
  end
end
