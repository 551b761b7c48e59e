// Plugin: how a policy in a shared library presents itself. The library exports one C symbol,
// schedtwin_policy_v1, a PolicyDescriptor that SCHEDTWIN_EXPORT_POLICY defines. Its first part is
// plain bytes: the stamp says what both sides' layouts depend on, and the program compares it, read
// from the file, with its own before any of the library's code is loaded. The two must be equal to
// the letter: a policy and the runtime share C++ types (views, spans, virtual tables), not a C
// interface. Included by plugins, once each, and by the program's loader. Constants only.
#ifndef SCHEDTWIN_POLICIES_API_PLUGIN_H_
#define SCHEDTWIN_POLICIES_API_PLUGIN_H_

#include "policies/api/policy.h"

#ifndef SCHEDTWIN_API_HASH
#error "SCHEDTWIN_API_HASH is not defined; build policies with schedtwin_add_policy() in CMake"
#endif

// Names outside the namespace are for the preprocessor, which makes the stamp one literal.
#define SCHEDTWIN_TEXT_OF(value) #value
#define SCHEDTWIN_TEXT(value) SCHEDTWIN_TEXT_OF(value)

#if defined(__clang__)
#define SCHEDTWIN_STAMP_COMPILER                                                                   \
  "clang " SCHEDTWIN_TEXT(__clang_major__) "." SCHEDTWIN_TEXT(__clang_minor__) "." SCHEDTWIN_TEXT( \
      __clang_patchlevel__)
#else
#define SCHEDTWIN_STAMP_COMPILER                                                         \
  "gcc " SCHEDTWIN_TEXT(__GNUC__) "." SCHEDTWIN_TEXT(__GNUC_MINOR__) "." SCHEDTWIN_TEXT( \
      __GNUC_PATCHLEVEL__)
#endif

#if defined(__x86_64__)
#define SCHEDTWIN_STAMP_TARGET "x86_64"
#elif defined(__aarch64__)
#define SCHEDTWIN_STAMP_TARGET "aarch64"
#else
#error "plugins are built for x86_64 or aarch64"
#endif

#if defined(_LIBCPP_VERSION)
#define SCHEDTWIN_STAMP_LIBRARY "libc++ " SCHEDTWIN_TEXT(_LIBCPP_VERSION)
#else
#define SCHEDTWIN_STAMP_LIBRARY \
  "libstdc++ " SCHEDTWIN_TEXT(__GLIBCXX__) ", new ABI " SCHEDTWIN_TEXT(_GLIBCXX_USE_CXX11_ABI)
#endif

#ifdef _GLIBCXX_ASSERTIONS
#define SCHEDTWIN_STAMP_ASSERTIONS "on"
#else
#define SCHEDTWIN_STAMP_ASSERTIONS "off"
#endif
#ifdef _GLIBCXX_DEBUG
#define SCHEDTWIN_STAMP_DEBUG "on"
#else
#define SCHEDTWIN_STAMP_DEBUG "off"
#endif
#ifdef _FORTIFY_SOURCE
#define SCHEDTWIN_STAMP_FORTIFY SCHEDTWIN_TEXT(_FORTIFY_SOURCE)
#else
#define SCHEDTWIN_STAMP_FORTIFY "off"
#endif

#if defined(__has_feature)
#define SCHEDTWIN_HAS(feature) __has_feature(feature)
#else
#define SCHEDTWIN_HAS(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || SCHEDTWIN_HAS(address_sanitizer)
#define SCHEDTWIN_STAMP_ADDRESS " address"
#else
#define SCHEDTWIN_STAMP_ADDRESS ""
#endif
#if defined(__SANITIZE_THREAD__) || SCHEDTWIN_HAS(thread_sanitizer)
#define SCHEDTWIN_STAMP_THREAD " thread"
#else
#define SCHEDTWIN_STAMP_THREAD ""
#endif
#if SCHEDTWIN_HAS(memory_sanitizer)
#define SCHEDTWIN_STAMP_MEMORY " memory"
#else
#define SCHEDTWIN_STAMP_MEMORY ""
#endif
#if SCHEDTWIN_HAS(undefined_behavior_sanitizer)  // gcc does not tell, and no layout depends on it
#define SCHEDTWIN_STAMP_UNDEFINED " undefined"
#else
#define SCHEDTWIN_STAMP_UNDEFINED ""
#endif

/// One "part=value" a line. The loader knows the parts by these names.
#define SCHEDTWIN_STAMP                                                           \
  "compiler=" SCHEDTWIN_STAMP_COMPILER "\ntarget=" SCHEDTWIN_STAMP_TARGET         \
  "\nC++ standard=" SCHEDTWIN_TEXT(                                               \
      __cplusplus) "\nstandard library=" SCHEDTWIN_STAMP_LIBRARY                  \
                   "\n_GLIBCXX_ASSERTIONS=" SCHEDTWIN_STAMP_ASSERTIONS            \
                   "\n_GLIBCXX_DEBUG=" SCHEDTWIN_STAMP_DEBUG                      \
                   "\n_FORTIFY_SOURCE=" SCHEDTWIN_STAMP_FORTIFY                   \
                   "\nsanitizers=" SCHEDTWIN_STAMP_ADDRESS SCHEDTWIN_STAMP_THREAD \
                       SCHEDTWIN_STAMP_MEMORY SCHEDTWIN_STAMP_UNDEFINED           \
                   "\napi headers=" SCHEDTWIN_API_HASH "\n"

#define SCHEDTWIN_POLICY_MAGIC "schedtwinpolicy"

namespace schedtwin {

/// What schedtwin_policy_v1 is. Up to the stamp the same for ever, whatever compiler made it.
struct PolicyDescriptor {
  char magic[16];
  char stamp[1008];             ///< ends with a zero
  const PolicyInfo* (*info)();  ///< lives as long as the library; its create() never gives null
};

}  // namespace schedtwin

/// Exports a PolicyInfo, an object or a call that gives a reference to one, as this library's
/// policy. Once in a library, in any namespace: SCHEDTWIN_EXPORT_POLICY(kInfo);
#define SCHEDTWIN_EXPORT_POLICY(policy_info)                              \
  extern "C" {                                                            \
  extern const ::schedtwin::PolicyDescriptor schedtwin_policy_v1          \
      __attribute__((visibility("default")));                             \
  constinit const ::schedtwin::PolicyDescriptor schedtwin_policy_v1 = {   \
      SCHEDTWIN_POLICY_MAGIC, SCHEDTWIN_STAMP,                            \
      []() -> const ::schedtwin::PolicyInfo* { return &(policy_info); }}; \
  }                                                                       \
  static_assert(::std::string_view(SCHEDTWIN_STAMP).size() < sizeof(schedtwin_policy_v1.stamp))

#endif  // SCHEDTWIN_POLICIES_API_PLUGIN_H_
