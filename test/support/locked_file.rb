# frozen_string_literal: true

require "rbconfig"

# A process that has an SQLite file's write lock, as one that is frozen inside a transaction would: what is asked of the
# file waits.
class LockedFile
  # Byte 120 of the shared memory is the lock on writing to a write-ahead log (SQLite, walformat.html). As struct flock of
  # Linux with 64 bits has it: type, whence, start, length, process.
  SCRIPT = <<~RUBY
    require "fcntl"
    file = File.open(ARGV.fetch(0) + "-shm", "r+")
    begin
      file.fcntl(Fcntl::F_SETLK, [Fcntl::F_WRLCK, IO::SEEK_SET, 120, 1, 0].pack("s s x4 q q i x4"))
    rescue Errno::EAGAIN, Errno::EACCES
      retry
    end
    $stdout.write("locked")
    $stdout.close
    $stdin.read
  RUBY

  def self.while_locked(path)
    IO.popen([RbConfig.ruby, "-e", SCRIPT, path], "r+") do |process|
      raise "the file was not locked" unless process.read(6) == "locked"

      yield
    end
  end
end
