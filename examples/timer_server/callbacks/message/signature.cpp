#include "signature.hpp"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <array>
#include <cstddef>
#include <memory>

namespace timer_server {

namespace {

struct free_mac {
  void operator()(EVP_MAC* mac) const noexcept { EVP_MAC_free(mac); }
  void operator()(EVP_MAC_CTX* context) const noexcept { EVP_MAC_CTX_free(context); }
};

const unsigned char* bytes_of(std::string_view text) noexcept {
  return reinterpret_cast<const unsigned char*>(text.data());
}

bool add(EVP_MAC_CTX& to, std::string_view text) noexcept {
  return EVP_MAC_update(&to, bytes_of(text), text.size()) == 1;
}

}  // namespace

std::optional<std::string> signature_of(std::string_view body, std::string_view secret,
                                        std::chrono::system_clock::time_point now) {
  static const std::unique_ptr<EVP_MAC, free_mac> hmac{EVP_MAC_fetch(nullptr, "HMAC", nullptr)};
  if (hmac == nullptr) return std::nullopt;
  const std::unique_ptr<EVP_MAC_CTX, free_mac> context{EVP_MAC_CTX_new(hmac.get())};
  if (context == nullptr) return std::nullopt;
  std::string digest_name = "SHA256";
  const std::array parameters{OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest_name.data(), 0),
                              OSSL_PARAM_construct_end()};
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  const std::string time = std::to_string(seconds);
  std::array<unsigned char, 32> digest{};
  std::size_t size = 0;
  const bool is_signed = EVP_MAC_init(context.get(), bytes_of(secret), secret.size(), parameters.data()) == 1 &&
                         add(*context, time) && add(*context, ".") && add(*context, body) &&
                         EVP_MAC_final(context.get(), digest.data(), &size, digest.size()) == 1;
  if (!is_signed) return std::nullopt;
  std::string signature = "t=" + time + ",v1=";
  for (const unsigned char byte : digest) {
    constexpr std::string_view digits = "0123456789abcdef";
    signature += digits[byte >> 4U];
    signature += digits[byte & 0xfU];
  }
  return signature;
}

}  // namespace timer_server
