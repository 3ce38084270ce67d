# frozen_string_literal: true

require "etc"
require "fileutils"
require "socket"
require "tmpdir"

# A server that tests start for themselves: from the machine's packages, on a free port, in a temporary folder. It ends with
# the process that started it, however that ends, and its folder with it.
class Server
  # How long one may take to come up; only a failure takes it.
  PATIENCE = 90
  # As whom it runs where the test is root: most servers refuse to be.
  NOBODY = 65_534

  # Ends the server when the pipe is closed, which the kernel does when this process dies.
  GUARD = <<~SH
    trap '' INT TERM HUP
    exec 2>/dev/null
    folder=$1; shift
    "$@" >>"$folder/log" 2>&1 </dev/null & pid=$!
    echo "$pid" >"$folder/pid.new" && mv "$folder/pid.new" "$folder/pid"
    read -r word
    kill -KILL "$pid"
    wait "$pid"
    [ "$word" = keep ] || rm -rf "$folder"
  SH

  # The one of its kind that the tests of this process share.
  def self.shared = (@shared ||= new)

  attr_reader :port

  def initialize
    @folder = Dir.mktmpdir("lease-server")
    File.chown(NOBODY, NOBODY, @folder) if Process.uid.zero?
    ObjectSpace.define_finalizer(self, self.class.remover(@folder, Process.pid))
    @port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
    set_up
    start
  end

  # Where the server was never started, or ended with its folder kept.
  def self.remover(folder, process)
    -> { FileUtils.rm_rf(folder) if process == Process.pid && !File.exist?("#{folder}/pid") }
  end

  def start
    @guard = IO.popen(["sh", "-c", GUARD, "sh", @folder, *as_nobody, *command], "w", pgroup: true)
    @guard.sync = true
    wait_until { pid && answers? }
  end

  # Ends it at once, as a crash does.
  def kill
    @guard.write("keep\n")
    @guard.close
    FileUtils.rm_f("#{@folder}/pid")
  end

  def restart
    kill
    start
  end

  # With all that it has started, for a connection may have a process of its own.
  def freeze_process = signal(:STOP)

  def thaw = signal(:CONT)

  private

  def pid
    File.exist?("#{@folder}/pid") && Integer(File.read("#{@folder}/pid"))
  end

  def signal(name)
    Process.kill(name, pid)
    File.read("/proc/#{pid}/task/#{pid}/children").split.each do |child|
      Process.kill(name, Integer(child))
    rescue Errno::ESRCH
      next
    end
  end

  def as_nobody
    user = Process.uid.zero? ? ["--reuid", NOBODY.to_s, "--regid", NOBODY.to_s, "--clear-groups"] : []
    ["setpriv", "--pdeathsig", "KILL", *user]
  end

  def write(name, text)
    File.write("#{@folder}/#{name}", text)
    File.chown(NOBODY, NOBODY, "#{@folder}/#{name}") if Process.uid.zero?
  end

  # Runs something to its end, as the server's user.
  def run(*command)
    said = IO.popen([*as_nobody, *command, { chdir: @folder, err: %i[child out] }], &:read)
    raise "#{command.first} failed: #{said}" unless $?.success? # rubocop:disable Style/SpecialGlobalVars
  end

  def wait_until
    limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + PATIENCE
    until yield
      log = File.exist?("#{@folder}/log") ? File.read("#{@folder}/log") : ""
      raise "#{self.class} does not answer: #{log}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > limit

      sleep 0.02
    end
  end

  # Whether the store's own client gets as far as to be told that there is no store yet.
  def answers?
    LeaseMachines.open(url, timeout: 2, &:epoch)
    true
  rescue LeaseMachines::Refused => error
    error.kind == :not_set_up
  rescue LeaseMachines::StoreError
    false
  end
end

class PostgresServer < Server
  def url = "postgres://lease@127.0.0.1:#{@port}/postgres"

  private

  def set_up
    run(program("initdb"), "-D", "#{@folder}/data", "-U", "lease", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
    write("data/postgresql.auto.conf", <<~CONF)
      listen_addresses = '127.0.0.1'
      unix_socket_directories = '#{@folder}'
      shared_buffers = 32MB
      lc_messages = 'C'
    CONF
  end

  def command = [program("postgres"), "-D", "#{@folder}/data", "-p", @port.to_s]

  def program(name)
    newest = Dir["/usr/lib/postgresql/*/bin/#{name}"].max_by { |path| path[/\d+/].to_i }
    newest || name
  end
end

class MariadbServer < Server
  def url = "mariadb://lease:@127.0.0.1:#{@port}/leases"

  private

  def set_up
    Dir.mkdir("#{@folder}/data")
    File.chown(NOBODY, NOBODY, "#{@folder}/data") if Process.uid.zero?
    run("mariadb-install-db", "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db",
        "--datadir=#{@folder}/data")
    write("first.sql", <<~SQL)
      CREATE DATABASE IF NOT EXISTS leases;
      CREATE USER IF NOT EXISTS lease@'%' IDENTIFIED BY '';
      GRANT ALL ON *.* TO lease@'%';
    SQL
  end

  def command
    ["mariadbd", "--no-defaults", "--datadir=#{@folder}/data", "--socket=#{@folder}/socket", "--port=#{@port}",
     "--pid-file=#{@folder}/server.pid", "--init-file=#{@folder}/first.sql", "--bind-address=127.0.0.1",
     "--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=2", "--secure-file-priv="]
  end
end

class RedisServer < Server
  def url = "redis://127.0.0.1:#{@port}/0"

  private

  def set_up = nil

  def command
    ["redis-server", "--port", @port.to_s, "--bind", "127.0.0.1", "--save", "", "--dir", @folder, "--appendonly", "yes",
     "--appendfsync", "always"]
  end
end

class EtcdServer < Server
  def url = "etcd://127.0.0.1:#{@port}/leases"

  private

  def set_up
    @peer = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
  end

  def command
    clients, members = [@port, @peer].map { |port| "http://127.0.0.1:#{port}" }
    ["etcd", "--name=one", "--data-dir=#{@folder}/data", "--listen-client-urls=#{clients}",
     "--advertise-client-urls=#{clients}", "--listen-peer-urls=#{members}", "--initial-advertise-peer-urls=#{members}",
     "--initial-cluster=one=#{members}", "--log-level=error"]
  end
end
