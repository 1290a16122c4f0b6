# Drives docs/examples/redis_rb.rb: PORT, what to do, and its arguments. An agent at the socket AGENT has the locks.

require "timeout"
require_relative "redis_rb"

port, action, *arguments = ARGV
timeouts = ENV["READ_TIMEOUT"] ? { read_timeout: ENV["READ_TIMEOUT"].to_f } : {}
at = ENV["AGENT"] ? { path: ENV["AGENT"] } : { port: port.to_i }
REDIS = Redis.new(**at, **timeouts)
DATA = Redis.new(port: port.to_i)
$stdout.sync = true

def count(key, times, tasks)
  work = lambda do
    Integer(times).times do
      with_lock(REDIS, key, wait: 600) do
        seen = DATA.get("counter").to_i
        sleep(0.001)
        DATA.set("counter", seen + 1)
      end
    end
  end
  Array.new(Integer(tasks)) { Thread.new(&work) }.each(&:join)
end

def turn(key, name)
  with_lock(REDIS, key, wait: 600, keep: 60) { REDIS.rpush("order", name) }
end

def hold(key, ttl)
  with_lock(REDIS, key, ttl: ttl.to_f) do |held|
    puts "held #{held.fence}"
    held.check until $stdin.wait_readable(0.1)
  end
  puts "released"
rescue Lost
  puts "lost"
end

def fail(key)
  with_lock(REDIS, key, wait: 1) { puts "held" }
rescue Redis::CommandError => e
  puts e.message
end

# Cancels threads that wait, in the moment in which their lock becomes free.
def cancel(name, times, tasks)
  outcomes = Array.new(Integer(tasks)) do |task|
    Thread.new { Array.new(Integer(times)) { cancel_one("#{name}:#{task}") } }
  end
  outcomes = outcomes.flat_map(&:value)
  puts "granted #{outcomes.count { |granted, _| granted }} left #{outcomes.count { |_, left| left }}"
end

def cancel_one(key)
  granted = false
  REDIS.call("DLOCK.ACQUIRE", key, "before", 600_000)
  waiter = Thread.new do
    with_lock(REDIS, key) do
      granted = true
      sleep(600)
    end
  rescue Timeout::Error
    nil
  end
  Thread.pass until waiting(key) >= 1
  REDIS.call("DLOCK.RELEASE", key, "before")
  sleep(0.075 * rand) # it asks again within 75 ms
  waiter.raise(Timeout::Error)
  waiter.join
  [granted, REDIS.call("DLOCK.INSPECT", key)]
end

def waiting(key)
  inspected(key)["waiting"]
end

def inspected(key)
  Hash[*REDIS.call("DLOCK.INSPECT", key)]
end

# A child leaves the block before its parent does.
def fork_inside(key)
  with_lock(REDIS, key) do |held|
    unless (child = Process.fork)
      begin
        held.check
      rescue Lost
        exit(7)
      end
    end
    Process.wait(child)
    held.check
    puts "child #{$?.exitstatus} holders #{inspected(key)['holding']}"
  end
end

send(action == "fork" ? :fork_inside : action, *arguments)
