# frozen_string_literal: true

# Runs a block in children of this process.
module Child
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
      kind, value = Marshal.load(reader.read)
      reader.close
      Process.wait(pid)
      raise "in the child: #{value}" if kind == :raised

      value
    end
  end
end
