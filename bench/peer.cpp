// Workload W (see simpy_peer.py) in bare C++: what a program for this one question can do.
//
// The same protocol, the same kind of queue and the same oracle as the compiled simulator's:
// a probabilistic clock of 50 entries of which a node owns 2; a ring of time buckets with linked
// lists, sorted when they open, exact in (time, order of insertion); bits first, vectors if they do
// not answer. Sizes that W fixes are constants here, and nothing is counted but deliveries,
// violations and latency.
//
//   peer NODES MESSAGES ORACLE SEED      draws its own broadcasts and delays, and times itself
//   peer NODES MESSAGES ORACLE FILE      takes them from a file: the same run as somebody else's
//
// The file: for each node its 2 entries; for each broadcast its time in ns and its node; then the
// delays in ns in the order of use; all int64. Prints one JSON object.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

namespace {

constexpr int kEntries = 50;
constexpr int kWidth = 64;  // a row of a clock, padded to whole vectors
constexpr int kOwn = 2;
constexpr double kGapNs = 1e7;
constexpr double kDelayNsMean = 100e6;
constexpr double kDelayNsSd = 20e6;
constexpr int64_t kDelayNsMin = 1000;
constexpr int32_t kNone = -1;

double cpu_s() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

// xoshiro256++ of Blackman and Vigna, and the ziggurat of Marsaglia and Tsang with 256 layers.
class Random {
 public:
  explicit Random(uint64_t seed) {
    for (uint64_t& word : state_) {  // splitmix64
      uint64_t z = (seed += 0x9e3779b97f4a7c15);
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
      z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
      word = z ^ (z >> 31);
    }
    constexpr double r = 3.6541528853610088, v = 0.00492867323399;
    double x = r;
    x_[0] = v / std::exp(-0.5 * r * r);
    x_[1] = r;
    for (int i = 2; i < 256; ++i) {
      x = std::sqrt(-2 * std::log(v / x + std::exp(-0.5 * x * x)));
      x_[i] = x;
    }
    x_[256] = 0;
    for (int i = 0; i < 256; ++i) {
      inside_[i] = static_cast<uint64_t>(x_[i + 1] / x_[i] * 0x1p52);
      scale_[i] = x_[i] * 0x1p-52;
      height_[i] = std::exp(-0.5 * x_[i] * x_[i]);
    }
    height_[256] = 1;
  }

  uint64_t bits() {
    auto rotl = [](uint64_t x, int k) { return (x << k) | (x >> (64 - k)); };
    auto& s = state_;
    const uint64_t result = rotl(s[0] + s[3], 23) + s[0];
    const uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
  }

  double uniform() { return ((bits() >> 11) + 0.5) * 0x1p-53; }

  double normal() {
    for (;;) {
      const uint64_t b = bits();
      const int layer = b & 255;
      const bool negative = b & 256;
      const uint64_t magnitude = b >> 12;
      const double x = magnitude * scale_[layer];
      if (magnitude < inside_[layer]) [[likely]] return negative ? -x : x;
      if (layer == 0) {
        const double r = x_[1];
        double a, e;
        do {
          a = -std::log(uniform()) / r;
          e = -std::log(uniform());
        } while (2 * e < a * a);
        return negative ? -(r + a) : r + a;
      }
      const double y = height_[layer] + uniform() * (height_[layer + 1] - height_[layer]);
      if (y < std::exp(-0.5 * x * x)) return negative ? -x : x;
    }
  }

 private:
  std::array<uint64_t, 4> state_;
  std::array<double, 257> x_, height_;
  std::array<double, 256> scale_;
  std::array<uint64_t, 256> inside_;
};

struct Event {
  int64_t time_ns;
  int32_t node;
  int32_t slot;  // negative: a broadcast of the node
};

// Buckets of 65.5 us in a ring of 0.54 s; W never looks further ahead than the ring reaches.
class Queue {
 public:
  Queue() : ring_(kRing, kNone) {}

  void push(int64_t time_ns, int32_t node, int32_t slot) {
    int32_t entry = free_;
    if (entry == kNone) {
      entry = static_cast<int32_t>(entries_.size());
      entries_.emplace_back();
    } else {
      free_ = entries_[entry].link;
    }
    Entry& e = entries_[entry];
    e.event = {time_ns, node, slot};
    const int64_t bucket = time_ns >> kBucketBits;
    ++size_;
    if (bucket == bucket_) {
      insert_open(e.event);
      e.link = free_;
      free_ = entry;
      return;
    }
    if (bucket - bucket_ >= kRing) {
      std::fprintf(stderr, "peer: an event lies beyond the ring\n");
      std::exit(1);
    }
    int32_t& head = ring_[bucket & (kRing - 1)];
    e.link = head;
    head = entry;
  }

  bool pop(Event& event) {
    if (position_ == opened_.size()) {
      if (size_ == 0) return false;
      open_next();
    }
    event = opened_[position_++];
    --size_;
    return true;
  }

 private:
  struct Entry {
    Event event;
    int32_t link;
  };
  static constexpr int kBucketBits = 16;
  static constexpr int64_t kRing = 1 << 13;

  void open_next() {
    int32_t entry;
    do {
      ++bucket_;
      entry = ring_[bucket_ & (kRing - 1)];
    } while (entry == kNone);
    ring_[bucket_ & (kRing - 1)] = kNone;
    opened_.clear();
    position_ = 0;
    while (entry != kNone) {
      Entry& e = entries_[entry];
      opened_.push_back(e.event);
      const int32_t link = e.link;
      e.link = free_;
      free_ = entry;
      entry = link;
    }
    if (opened_.size() == 1) return;
    std::reverse(opened_.begin(), opened_.end());
    for (size_t i = 1; i < opened_.size(); ++i) {
      const Event event = opened_[i];
      size_t place = i;
      for (; place > 0 && opened_[place - 1].time_ns > event.time_ns; --place)
        opened_[place] = opened_[place - 1];
      opened_[place] = event;
    }
  }

  void insert_open(const Event& event) {
    size_t place = opened_.size();
    opened_.push_back(event);
    for (; place > position_ && opened_[place - 1].time_ns > event.time_ns; --place)
      opened_[place] = opened_[place - 1];
    opened_[place] = event;
  }

  std::vector<Entry> entries_;
  std::vector<int32_t> ring_;
  std::vector<Event> opened_;
  size_t position_ = 0;
  int64_t bucket_ = 0;
  int64_t size_ = 0;
  int32_t free_ = kNone;
};

struct Message {
  int64_t born_ns;
  int64_t number;
  int32_t source;
  int32_t sequence;
  int32_t references;
  int32_t next_free;
};

using Clock = std::array<int32_t, kWidth>;
using Bits = std::array<uint64_t, 4>;
constexpr int kQuickSlots = 64 * 4;

// Judges deliveries as precedes.sim.engine.oracle does; W loses nothing and repeats nothing.
class Oracle {
 public:
  Oracle(int nodes, int64_t messages)
      : nodes_(nodes),
        width_((nodes + 31) / 32 * 32),
        known_(size_t(nodes) * width_),
        contiguous_(size_t(nodes) * width_),
        done_(nodes),
        quick_past_(kQuickSlots),
        behind_(nodes),
        gaps_(nodes),
        latest_(nodes, -1),
        successor_(messages, -1),
        row_bytes_((messages + 7) / 8),
        beyond_(size_t(nodes) * row_bytes_) {}

  void on_broadcast(int node, int slot, int64_t number) {
    if (size_t(slot + 1) * width_ > past_.size()) past_.resize(2 * size_t(slot + 1) * width_);
    int32_t* known = &known_[size_t(node) * width_];
    int32_t* contiguous = &contiguous_[size_t(node) * width_];
    const bool behind = behind_[node];
    std::memcpy(&past_[size_t(slot) * width_], behind ? known : contiguous, 4 * width_);
    ++known[node];
    ++contiguous[node];
    if (latest_[node] >= 0) successor_[latest_[node]] = number;
    latest_[node] = number;
    if (slot >= kQuickSlots) return;
    const int word = slot >> 6;
    const uint64_t bit = uint64_t{1} << (slot & 63);
    for (Bits& bits : done_) bits[word] &= ~bit;
    for (Bits& bits : quick_past_) bits[word] &= ~bit;
    if (behind)
      quick_past_[slot].fill(~uint64_t{0});
    else
      quick_past_[slot] = done_[node];
    done_[node][word] |= bit;
  }

  // Whether the delivery is out of causal order.
  bool on_deliver(int node, int slot, const Message& message) {
    int32_t& count = contiguous_[size_t(node) * width_ + message.source];
    if (slot < kQuickSlots) {
      Bits& done = done_[node];
      const Bits& past = quick_past_[slot];
      uint64_t missing = 0;
      for (int i = 0; i < 4; ++i) missing |= past[i] & ~done[i];
      done[slot >> 6] |= uint64_t{1} << (slot & 63);
      if (missing == 0 && count + 1 == message.sequence && !behind_[node]) [[likely]] {
        count = message.sequence;
        return false;
      }
    }
    return on_deliver_late(node, slot, message);
  }

  int64_t violations = 0;

 private:
  [[gnu::noinline]] bool on_deliver_late(int node, int slot, const Message& message) {
    int32_t* known = &known_[size_t(node) * width_];
    int32_t* contiguous = &contiguous_[size_t(node) * width_];
    const int32_t* past = &past_[size_t(slot) * width_];
    int32_t shortfall = 0;
    for (int q = 0; q < width_; ++q) shortfall = std::min(shortfall, contiguous[q] - past[q]);
    int32_t& count = contiguous[message.source];
    const bool behind = behind_[node];
    if (shortfall >= 0 && count + 1 == message.sequence && !behind) {
      count = message.sequence;
      return false;
    }
    for (int q = 0; q < width_; ++q) known[q] = std::max(behind ? known[q] : contiguous[q], past[q]);
    known[message.source] = std::max(known[message.source], message.sequence);
    if (count + 1 < message.sequence) {
      beyond(node, message.number) |= 1 << (message.number & 7);
      ++gaps_[node];
    } else {
      ++count;
      for (int64_t next = successor_[message.number]; next >= 0; next = successor_[next]) {
        const int bit = 1 << (next & 7);
        if (!(beyond(node, next) & bit)) break;
        beyond(node, next) &= ~bit;
        --gaps_[node];
        ++count;
      }
    }
    bool differs = gaps_[node] != 0;
    for (int q = 0; q < width_; ++q) differs |= known[q] != contiguous[q];
    behind_[node] = differs;
    violations += shortfall < 0;
    return shortfall < 0;
  }

  uint8_t& beyond(int node, int64_t number) {
    return beyond_[size_t(node) * row_bytes_ + (number >> 3)];
  }

  int nodes_;
  int width_;
  std::vector<int32_t> known_, contiguous_, past_;
  std::vector<Bits> done_, quick_past_;
  std::vector<uint8_t> behind_;
  std::vector<int32_t> gaps_;
  std::vector<int64_t> latest_, successor_;
  size_t row_bytes_;
  std::vector<uint8_t> beyond_;
};

struct Inputs {
  std::vector<std::array<int32_t, kOwn>> own;
  std::vector<Event> issues;
  std::vector<int64_t> delays_ns;  // empty: drawn as they are used
};

template <bool kJudged>
class Simulation {
 public:
  Simulation(int nodes, Inputs inputs, uint64_t seed)
      : nodes_(nodes),
        inputs_(std::move(inputs)),
        random_(seed),
        oracle_(kJudged ? nodes : 0, kJudged ? int64_t(inputs_.issues.size()) : 0),
        clock_(nodes),
        sequence_(nodes),
        held_(nodes) {}

  void run() {
    const std::vector<Event>& issues = inputs_.issues;
    if (issues.empty()) return;
    queue_.push(issues[0].time_ns, issues[0].node, kNone);
    Event event;
    while (queue_.pop(event)) {
      now_ns_ = event.time_ns;
      if (event.slot >= 0) [[likely]]
        receive(event.node, event.slot);
      else
        broadcast(event.node);
    }
  }

  int64_t deliveries = 0;
  int64_t latency_ns = 0;
  int64_t violations() const { return oracle_.violations; }
  bool all_delivered() const {
    return std::all_of(held_.begin(), held_.end(), [](const auto& held) { return held.empty(); });
  }

 private:
  void broadcast(int node) {
    int slot = free_;
    if (slot == kNone) {
      slot = static_cast<int>(message_.size());
      message_.emplace_back();
      need_.emplace_back();
    } else {
      free_ = message_[slot].next_free;
    }
    message_[slot] = {now_ns_, broadcasts_, node, ++sequence_[node], nodes_ - 1, kNone};
    need_[slot] = clock_[node];
    increment(node, node);
    if (kJudged) oracle_.on_broadcast(node, slot, broadcasts_);
    for (int i = 1; i < nodes_; ++i) {
      const int target = node + i < nodes_ ? node + i : node + i - nodes_;
      queue_.push(now_ns_ + delay_ns(), target, slot);
    }
    if (++broadcasts_ < int64_t(inputs_.issues.size())) {
      const Event& next = inputs_.issues[broadcasts_];
      queue_.push(next.time_ns, next.node, kNone);
    }
  }

  int64_t delay_ns() {
    if (!inputs_.delays_ns.empty()) return inputs_.delays_ns[used_++];
    const auto delay = static_cast<int64_t>(kDelayNsMean + kDelayNsSd * random_.normal());
    return std::max(delay, kDelayNsMin);
  }

  void increment(int node, int source) {
    for (int x : inputs_.own[source]) ++clock_[node][x];
  }

  bool covers(int node, int slot) const {
    const Clock& clock = clock_[node];
    const Clock& need = need_[slot];
    int32_t shortfall = 0;
    for (int x = 0; x < kWidth; ++x) shortfall = std::min(shortfall, clock[x] - need[x]);
    return shortfall >= 0;
  }

  void receive(int node, int slot) {
    if (!covers(node, slot)) {
      held_[node].push_back(slot);
      return;
    }
    deliver(node, slot);
    if (!held_[node].empty()) deliver_held(node);
  }

  [[gnu::noinline]] void deliver_held(int node) {
    std::vector<int32_t>& held = held_[node];
    auto ready = [&] {
      return std::find_if(held.begin(), held.end(), [&](int s) { return covers(node, s); });
    };
    for (auto it = ready(); it != held.end(); it = ready()) {
      const int slot = *it;
      held.erase(it);
      deliver(node, slot);
    }
  }

  void deliver(int node, int slot) {
    Message& message = message_[slot];
    increment(node, message.source);
    ++deliveries;
    latency_ns += now_ns_ - message.born_ns;
    if (kJudged) oracle_.on_deliver(node, slot, message);
    if (--message.references == 0) {
      message.next_free = free_;
      free_ = slot;
    }
  }

  int nodes_;
  Inputs inputs_;
  Random random_;
  Queue queue_;
  Oracle oracle_;
  std::vector<Clock> clock_, need_;
  std::vector<Message> message_;
  std::vector<int32_t> sequence_;
  std::vector<std::vector<int32_t>> held_;
  size_t used_ = 0;
  int64_t now_ns_ = 0;
  int64_t broadcasts_ = 0;
  int32_t free_ = kNone;
};

Inputs drawn(int nodes, int64_t messages, uint64_t seed) {
  Inputs inputs;
  Random random(seed);
  for (int i = 0; i < nodes; ++i) {
    const int first = random.bits() % kEntries;
    const int second = (first + 1 + random.bits() % (kEntries - 1)) % kEntries;
    inputs.own.push_back({first, second});
  }
  double time_ns = 0;
  for (int64_t i = 0; i < messages; ++i) {
    time_ns -= kGapNs * std::log(random.uniform());
    inputs.issues.push_back({int64_t(time_ns), int32_t(random.bits() % nodes), kNone});
  }
  return inputs;
}

Inputs read(int nodes, int64_t messages, const char* path) {
  std::FILE* file = std::fopen(path, "rb");
  if (!file) {
    std::perror(path);
    std::exit(1);
  }
  auto take = [&](size_t words) {
    std::vector<int64_t> found(words);
    if (std::fread(found.data(), 8, words, file) != words) {
      std::fprintf(stderr, "peer: %s is too short\n", path);
      std::exit(1);
    }
    return found;
  };
  Inputs inputs;
  const auto own = take(size_t(nodes) * kOwn);
  for (int i = 0; i < nodes; ++i) inputs.own.push_back({int32_t(own[2 * i]), int32_t(own[2 * i + 1])});
  const auto issues = take(2 * messages);
  for (int64_t i = 0; i < messages; ++i)
    inputs.issues.push_back({issues[2 * i], int32_t(issues[2 * i + 1]), kNone});
  inputs.delays_ns = take(size_t(messages) * (nodes - 1));
  std::fclose(file);
  return inputs;
}

template <bool kJudged>
int run(int nodes, int64_t messages, const char* source) {
  char* end;
  const uint64_t seed = std::strtoull(source, &end, 10);
  const bool draws = *end == 0;
  const double start_s = cpu_s();
  Simulation<kJudged> simulation(
      nodes, draws ? drawn(nodes, messages, seed) : read(nodes, messages, source), seed + 1);
  simulation.run();
  const double spent_s = cpu_s() - start_s;
  if (!simulation.all_delivered()) {
    std::fprintf(stderr, "peer: messages are still held at the end\n");
    return 1;
  }
  std::printf("{\"deliveries\": %lld, \"violations\": %lld, \"latency_ns\": %lld, \"cpu_s\": %.6f}\n",
              static_cast<long long>(simulation.deliveries),
              static_cast<long long>(simulation.violations()),
              static_cast<long long>(simulation.latency_ns), spent_s);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) {
    std::fprintf(stderr, "usage: peer NODES MESSAGES ORACLE(0|1) SEED|FILE\n");
    return 2;
  }
  const int nodes = std::atoi(arguments[1]);
  const int64_t messages = std::atoll(arguments[2]);
  return std::atoi(arguments[3]) ? run<true>(nodes, messages, arguments[4])
                                 : run<false>(nodes, messages, arguments[4]);
}
