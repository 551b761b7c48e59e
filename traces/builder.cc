#include "traces/builder.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

namespace schedtwin {

namespace {

template <class T>
void Permute(const std::vector<std::uint64_t>& order, std::vector<T>* column) {
  if (column->empty()) return;
  std::vector<T> sorted;
  sorted.reserve(column->size());
  for (const std::uint64_t row : order) sorted.push_back((*column)[row]);
  *column = std::move(sorted);
}

}  // namespace

std::uint32_t TraceBuilder::NumberOf(std::string_view name, Names* names) {
  if (name.empty()) return 0;
  const auto next = static_cast<std::uint32_t>(names->size() + 1);
  return names->try_emplace(std::string(name), next).first->second;
}

template <class T>
void TraceBuilder::Put(T value, std::vector<T>* column) {
  if (value == 0 && column->empty()) return;
  column->resize(trace_.rows.size());
  column->back() = value;
}

bool TraceBuilder::Add(const TraceRow& row, const TraceDetails& details) {
  const std::uint64_t index = trace_.rows.size();
  if (details.key && !rows_by_key_.try_emplace(*details.key, index).second) return false;
  Add(row);
  Put(NumberOf(details.session, &sessions_), &trace_.sessions);
  Put(NumberOf(details.tenant, &tenants_), &trace_.tenants);
  Put(NumberOf(details.request_class, &classes_), &trace_.classes);
  if (classes_.size() > trace_.class_names.size()) {
    trace_.class_names.emplace_back(details.request_class);
  }
  Put(details.images, &trace_.images);
  Put(details.parent ? *details.parent + 1 : 0, &parent_keys_);
  if (!details.text.empty()) {
    trace_.texts.PadTo(index);
    trace_.texts.Add(details.text);
  }
  return true;
}

void TraceBuilder::Sort() {
  std::vector<TraceRow>& rows = trace_.rows;
  if (trace_.sessions.empty() && trace_.tenants.empty() && trace_.classes.empty() &&
      trace_.images.empty() && parent_keys_.empty() && trace_.texts.empty()) {
    std::stable_sort(rows.begin(), rows.end(), [](const TraceRow& a, const TraceRow& b) {
      return a.arrival_ns < b.arrival_ns;
    });
    return;
  }
  std::vector<std::uint64_t> order(rows.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::uint64_t a, std::uint64_t b) {
    return rows[a].arrival_ns < rows[b].arrival_ns;
  });
  if (!trace_.texts.empty()) {
    TraceTexts texts;
    for (const std::uint64_t row : order) texts.Add(trace_.texts.of(row));
    trace_.texts = std::move(texts);
  }
  Permute(order, &rows);
  Permute(order, &trace_.sessions);
  Permute(order, &trace_.tenants);
  Permute(order, &trace_.classes);
  Permute(order, &trace_.images);
  Permute(order, &parent_keys_);
  std::vector<std::uint64_t> place(order.size());
  for (std::uint64_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  for (auto& [key, row] : rows_by_key_) row = place[row];
}

void TraceBuilder::ResolveParents() {
  if (parent_keys_.empty()) return;
  trace_.parents.assign(trace_.rows.size(), RequestSpec::kNoParent);
  for (std::uint64_t row = 0; row < parent_keys_.size(); ++row) {
    if (parent_keys_[row] == 0) continue;
    const auto parent = rows_by_key_.find(parent_keys_[row] - 1);
    if (parent == rows_by_key_.end()) {
      Flag("parent_not_in_trace");
    } else if (parent->second >= row) {
      Flag("parent_not_before");
    } else {
      trace_.parents[row] = parent->second;
    }
  }
}

Trace TraceBuilder::Finish() {
  std::vector<TraceRow>& rows = trace_.rows;
  for (std::vector<std::uint32_t>* column :
       {&trace_.sessions, &trace_.tenants, &trace_.classes, &trace_.images}) {
    if (!column->empty()) column->resize(rows.size());
  }
  if (!parent_keys_.empty()) parent_keys_.resize(rows.size());
  if (!trace_.texts.empty()) trace_.texts.PadTo(rows.size());
  if (out_of_order_ > 0) Sort();
  ResolveParents();
  if (!rows.empty() && rows.front().arrival_ns != 0) {
    const std::int64_t origin_ns = rows.front().arrival_ns;
    for (TraceRow& row : rows) row.arrival_ns -= origin_ns;
  }
  TraceProvenance& provenance = trace_.provenance;
  provenance.rows_kept = rows.size();
  provenance.rows_read = rows.size();
  for (const ReasonCount& dropped : provenance.dropped) provenance.rows_read += dropped.rows;
  provenance.rows_out_of_order = out_of_order_;
  if (out_of_order_ > 0) provenance.transforms.emplace_back("sorted");

  Trace trace = std::move(trace_);
  *this = TraceBuilder();
  return trace;
}

void TraceBuilder::Count(std::string_view reason, std::vector<ReasonCount>* counts) {
  for (ReasonCount& count : *counts) {
    if (count.reason == reason) {
      ++count.rows;
      return;
    }
  }
  counts->push_back({std::string(reason), 1});
}

}  // namespace schedtwin
