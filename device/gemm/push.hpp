// SPDX-License-Identifier: MIT
// Sends tiles to members while others are multiplied. If waves that multiply stored to a peer they
// would stop whenever the link is full, and all finish their tiles at about the same time:
// matmul_reduce_scatter of 8192 x 8192 x 3584 in bf16 on 4 H200s then took 1.27 times as long as
// the product alone (2026-11). So tiles are stored here, and a few workgroups, the pool, send them
// on; workgroups without further tiles to multiply help.
//
// No workgroup here waits for a peer. The pool waits for the workgroups that multiply, and these
// wait for no other. A workgroup helps only when all of them have begun, so that it never keeps one
// from its place on the GPU, whatever else runs there.
#pragma once
#include "../copy.hpp"
#include "gemm.hpp"
#include "members.hpp"

namespace shmem::gemm {

struct Push {
  Members members;
  unsigned tiles; // how many of the order are to be sent, from the first on
  bool waits;     // for tiles that this kernel multiplies; else all are there
  bool direct;    // the workgroup that multiplies a tile stores it at its owner
  bool owner;     // tiles go to the member whose shard they are in; else to all others
  unsigned rows; // of a shard that is lower than a tile: its bands go to their rows' owners; else 0
  char *from, *to;  // row 0 here, and at a member, as an address here
  size_t pitch;     // bytes from one row to the next, of both
  size_t shard;     // bytes: that row of an owner lies so much times its number before
  size_t odd;       // bytes: in calls of odd number it lies so much further
  size_t row;       // bytes of a row, all of them
  unsigned element; // bytes
  bool lines;       // addresses, pitch and row are multiples of 16 bytes, and bands below 4 GiB

  static constexpr unsigned band = 32; // rows of a tile, that a wave sends at once

  // Where row 0 of the product would be at the member to which the tile's shard goes: as an address
  // here, and as one at its owner.
  SHMEM_D_ char *box(Tile tile) const {
    return to + (epoch_of(members) % 2 ? odd : 0) - tile.shard * shard;
  }
  SHMEM_D_ char *there(Tile tile) const { return at(members, box(tile), int(tile.shard)); }

  template <class Scope> SHMEM_D_ void done(Tile tile, Scope scope) const {
    if (!waits) return;
    device::settle(scope);
    if (scope.rank() == 0) // orders the tile's stores, of all waves, before the number
      arch::store<Order::release, Range::device>(&members.own->call.progress[arch::block().x],
                                                 tile.at + 1);
  }

  template <class Tiles, class Scope> SHMEM_D_ void over(const Tiles &order, Scope scope) const {
    if (!waits || !tiles) return;
    // The last one to begin finds that all have begun, and helps, so every tile is sent.
    const unsigned begun =
        arch::wave_first(arch::load<Order::relaxed, Range::device>(&members.own->call.begun));
    if (arch::block().x >= order.workers || begun == order.workers) send(order, scope);
  }
  SHMEM_D_ void start() const {
    if (waits && arch::thread().x == 0)
      arch::fetch_add<Order::relaxed, Range::device>(&members.own->call.begun, 1u);
  }

  // Waves take bands of tiles in their order, each the next one that no other has taken.
  template <class Tiles, class Scope> SHMEM_D_ void send(const Tiles &tiles, Scope scope) const {
    const unsigned lane = scope.rank() % arch::wave_size,
                   lanes = arch::whole_waves || scope.size() > arch::wave_size ? arch::wave_size
                                                                               : scope.size();
    unsigned after = ticket(lane);
    while (send_band(tiles, arch::wave_first(after), after, lane, lanes)) {
    }
  }

private:
  SHMEM_D_ unsigned ticket(unsigned lane) const {
    return lane ? 0 : arch::fetch_add<Order::relaxed, Range::device>(&members.own->call.ticket, 1u);
  }
  template <class Tiles>
  SHMEM_D_ bool send_band(const Tiles &order, unsigned next, unsigned &after, unsigned lane,
                          unsigned lanes) const {
    const unsigned bands = (order.high + band - 1) / band, at = next / bands;
    Tile tile;
    if (at >= tiles || !order(at, tile)) return false;
    after = ticket(lane); // on its way meanwhile
    const unsigned first = tile.row + next % bands * band;
    unsigned end = tile.row + order.high < tile.end ? tile.row + order.high : tile.end;
    if (first >= end) return true;
    if (end - first > band) end = first + band;
    if (rows) {
      tile.shard = first / rows;
      if (tile.shard == unsigned(members.me)) return true;
    }
    if (waits) {
      SHMEM_TRACED_(Wave, trace::wait_tile, 0, -1)
      wait_until(members.own->call.progress[at % order.workers], at + 1);
    }
    send_rows(tile, first, end, order.wide, next, lane, lanes);
    return true;
  }
  SHMEM_D_ void send_rows(Tile tile, unsigned first, unsigned end, unsigned wide, unsigned turn,
                          unsigned lane, unsigned lanes) const {
    const size_t left = size_t(tile.col) * element, width = size_t(wide) * element,
                 bytes = row - left < width ? row - left : width;
    SHMEM_TRACED_(Wave, trace::send, bytes * (end - first) * (owner ? 1 : members.n - 1),
                  owner ? pe_of(members, int(tile.shard)) : -1)
    const char *s = from + first * pitch + left;
    char *d = box(tile) + first * pitch + left;
    // Members do not all begin with the same one, because the links to one peer carry less than all
    // links together.
    const unsigned n = unsigned(members.n), count = owner ? 1 : n - 1;
    const auto there = [&](unsigned k) {
      const unsigned i = (unsigned(members.me) + 1 + (turn + k) % count) % n;
      return owner ? at(members, d, int(tile.shard)) : at_c(members, d, int(i));
    };
    if (!lines) {
      for (unsigned r = 0; r < end - first; r++)
        for (unsigned k = 0; k < count; k++)
          device::copy<Remote::dest, 1>(there(k) + r * pitch, s + r * pitch,
                                        arch::anew(unsigned(bytes)), LaneRange{lane, lanes});
      return;
    }
    using Line = typename arch::WordOf<16>::type;
    constexpr unsigned batch = 512 / arch::wave_size; // 8 KiB of a wave are on the way
    const unsigned across = unsigned(bytes / 16), all = across * (end - first);
    const unsigned down = lanes / across, aside = lanes % across;
    unsigned r = lane / across, c = lane % across;
    for (unsigned i = lane; i < all; i += batch * lanes) {
      Line line[batch];
      unsigned place[batch];
      SHMEM_UNROLL_
      for (unsigned e = 0; e < batch; e++) {
        place[e] = r * unsigned(pitch) + c * 16;
        if (i + e * lanes < all)
          line[e] = arch::load_global(reinterpret_cast<const Line *>(s + place[e]));
        r += down, c += aside;
        if (c >= across) c -= across, r++;
      }
      arch::arrive(line);
      SHMEM_NO_UNROLL_
      for (unsigned k = 0; k < count; k++) {
        char *const to_k = there(k);
        SHMEM_UNROLL_
        for (unsigned e = 0; e < batch; e++)
          if (i + e * lanes < all)
            arch::store_remote(reinterpret_cast<Line *>(to_k + place[e]), line[e]);
      }
    }
  }
  struct LaneRange {
    unsigned lane, lanes;
    SHMEM_D_ unsigned rank() const { return lane; }
    SHMEM_D_ unsigned size() const { return lanes; }
    SHMEM_D_ void sync() const { arch::wave_sync(lanes); }
  };
};

} // namespace shmem::gemm
