# frozen_string_literal: true

require "io/wait"

# Runs a block in children of this process.
module Child
  # Only a failure takes it.
  PATIENCE = 60

  # What the block gives there. An exception is raised here.
  def in_child(&) = in_children(1, &).first

  def in_children(number)
    children = Array.new(number) do
      reader, writer = IO.pipe(binmode: true)
      pid = fork do
        reader.close
        answer = begin
          [:value, yield]
        rescue Exception => error # rubocop:disable Lint/RescueException
          [:raised, "#{error.class}: #{error.message}\n#{error.backtrace&.join("\n")}"]
        end
        writer.write(Marshal.dump(answer))
        writer.close
      ensure
        exit!(0) # without the test run that the parent has set up for its exit
      end
      writer.close
      [pid, reader]
    end
    children.map do |pid, reader|
      kind, value = Marshal.load(heard(pid, reader))
      reader.close
      Process.wait(pid)
      raise "in the child: #{value}" if kind == :raised

      value
    end
  end

  # What a process writes: so many bytes, or all until its end. One that takes too long is described and killed.
  def heard(pid, reader, length = nil)
    limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + PATIENCE
    heard = +"".b
    until heard.bytesize == length
      left = limit - Process.clock_gettime(Process::CLOCK_MONOTONIC)
      too_late(pid, heard) unless left.positive? && reader.wait_readable(left)
      heard << reader.readpartial(length ? length - heard.bytesize : 65_536)
    end
    heard
  rescue EOFError
    heard
  end

  private

  def too_late(pid, heard)
    signals = File.readlines("/proc/#{pid}/status").grep(/\ASig|\AState/).map(&:chomp).join(", ")
    threads = Dir["/proc/#{pid}/task/*"].map do |task|
      %w[comm wchan syscall stack].map { |name| look_at("#{task}/#{name}") }.join(": ")
    end
    raise "process #{pid} takes more than #{PATIENCE} s, after #{heard.inspect}; #{signals}\n#{threads.join("\n")}"
  ensure
    Process.kill("KILL", pid)
  end

  def look_at(file)
    File.read(file).strip
  rescue SystemCallError => error
    error.message
  end
end
