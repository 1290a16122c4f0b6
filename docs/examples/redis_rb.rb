# A lock of dlock from redis-rb, over the one connection that all threads share.
#
# Tried with redis-rb 4.8 and Ruby 3.1. Run it: ruby redis_rb.rb redis://localhost

require "redis"
require "securerandom"

# The lock is lost: another client may hold it.
class Lost < StandardError; end

# A lock that was granted. Show its fence to whatever can refuse a smaller one.
Held = Struct.new(:fence, :until, :pid) do
  def check
    # A child of fork is not the holder, and does not renew the lease.
    raise Lost if now >= self.until || Process.pid != pid
  end
end

# Calls the block with the lock. Times are in seconds.
def with_lock(redis, key, wait: 60, ttl: 30, keep: 5)
  token, deadline, pid = SecureRandom.hex, now + wait, Process.pid
  lease = [ttl, keep].min # a waiter may ask for no more; the first renewal makes it longer
  held = renewal = nil
  stray = false # whether an earlier request may still be on its way
  until held
    sent, earlier, stray = now, stray, true
    left = deadline - sent
    begin
      # Without WAIT, which would hold up every thread on this connection. KEEP keeps the place.
      fence = redis.call("DLOCK.ACQUIRE", key, token, ms(lease), "KEEP", ms(keep))
      # redis-rb asks again by itself after a time-out. The answer has taken longer then.
      stray = earlier || now - sent >= 0.2
      # The lease counts from the sending. Clocks differ by less than a hundredth.
      granted = Held.new(fence, sent + 0.99 * lease, pid) if fence
      held = granted if granted && now < granted.until # it asks again if the lease may be over
    rescue Redis::BaseError => e
      raise if left <= 0 || !may_pass?(e)
    end
    raise "#{key} was not free within #{wait} s" if !held && left <= 0
    sleep(0.025 + 0.05 * rand) unless held
  end
  renewal = Thread.new { renew(redis, key, token, ttl, lease, held) }
  result = yield held
  held.check
  result
ensure
  # Timeout and Thread#raise must not come between.
  Thread.handle_interrupt(Object => :never) do
    renewal&.kill
    release(redis, key, token, stray, keep) if Process.pid == pid
  end
end

def renew(redis, key, token, ttl, lease, held)
  loop do
    begin
      sent = now
      extended = redis.call("DLOCK.EXTEND", key, token, ms(ttl), "FENCE", held.fence)
      held.until = extended == 1 ? sent + 0.99 * ttl : 0
      lease = ttl
    rescue Redis::BaseError
      nil # the next turn asks again
    end
    sleep(lease / 3.0)
  end
end

def release(redis, key, token, stray, patience)
  # A stray request that arrives after FINAL takes no lock.
  final = stray ? ["FINAL"] : []
  give_up = now + patience # later the lease ends by itself
  while now < give_up
    begin
      return redis.call("DLOCK.RELEASE", key, token, *final)
    rescue Redis::BaseConnectionError
      sleep(0.05)
    rescue Redis::CommandError
      return
    end
  end
end

def may_pass?(error)
  error.is_a?(Redis::BaseConnectionError) || error.message.start_with?("QUARANTINE")
end

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

def ms(seconds)
  (1000 * seconds).to_i
end

if $PROGRAM_NAME == __FILE__
  redis = Redis.new(url: ARGV[0])
  with_lock(redis, "job:42") do |held|
    puts "held with the fence #{held.fence}"
    # The server refuses this if a later holder has been here.
    redis.call("DLOCK.FENCED", "{job:42}:mark", held.fence, "INCR", "{job:42}:runs")
  end
end
