#include "backend/cpu/dnnl.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

namespace trainer::backend::cpu {
namespace {

using dnnl::algorithm;
using dnnl::memory;

// The C interface takes an array that is made once; the C++ interface allocates in every call.
void execute(const dnnl::primitive& primitive, const dnnl::stream& stream,
             const std::vector<dnnl_exec_arg_t>& arguments) {
  const dnnl_status_t status = dnnl_primitive_execute(
      primitive.get(), stream.get(), static_cast<int>(arguments.size()), arguments.data());
  if (status != dnnl_success)
    throw DeviceError(concat("oneDNN: primitive failed, status ", status));
}

// A primitive, whose memories are made at the first run. Only the buffers of the caller's inputs
// move from call to call.
class Call {
 public:
  Call(dnnl::primitive primitive, std::vector<DnnlArgument> arguments)
      : primitive_(std::move(primitive)),
        arguments_(std::move(arguments)),
        stream_(dnnl_engine()) {}

  void run(const CallContext& context) {
    if (memories_.empty()) bind(context);
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      void* at = find(context, arguments_[i]);
      if (at == places_[i]) continue;
      memories_[i].set_data_handle(at);
      places_[i] = at;
    }
    execute(primitive_, stream_, slots_);
  }

 private:
  static void* find(const CallContext& context, const DnnlArgument& argument) {
    return context.at<char>(argument.buffer) + argument.offset;
  }
  void bind(const CallContext& context) {
    for (const DnnlArgument& argument : arguments_) {
      places_.push_back(find(context, argument));
      memories_.emplace_back(argument.desc, dnnl_engine(), places_.back());
      slots_.push_back({argument.id, memories_.back().get()});
    }
  }

  dnnl::primitive primitive_;
  std::vector<DnnlArgument> arguments_;
  dnnl::stream stream_;
  std::vector<memory> memories_;
  std::vector<void*> places_;  // the addresses of memories_
  std::vector<dnnl_exec_arg_t> slots_;
};

// A reorder between two places in memory.
class Reorder {
 public:
  Reorder(const memory::desc& from_desc, const float* from, const memory::desc& to_desc, void* to)
      : source_(from_desc, dnnl_engine(), const_cast<float*>(from)),
        target_(to_desc, dnnl_engine(), to),
        primitive_(make_primitive(source_, target_)),
        stream_(dnnl_engine()),
        arguments_{{DNNL_ARG_FROM, source_.get()}, {DNNL_ARG_TO, target_.get()}} {}
  void run() const { execute(primitive_, stream_, arguments_); }

 private:
  static dnnl::reorder make_primitive(const memory& source, const memory& target) {
    require_code_memory();
    return {source, target};
  }

  memory source_, target_;
  dnnl::reorder primitive_;
  dnnl::stream stream_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

// Returns a key that distinguishes formats.
std::string make_key(const memory::desc& desc) {
  return {reinterpret_cast<const char*>(&desc.data), sizeof desc.data};
}

memory::dims dnnl_dims(const Operand& operand) {
  if (operand.shape.rank() == 4) return {operand.n(), operand.c(), operand.h(), operand.w()};
  if (operand.layout == Layout::kBlocked) return {operand.n(), operand.c(), 1, 1};
  return memory::dims(operand.shape.dims());
}

}  // namespace

dnnl::engine& dnnl_engine() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

memory::data_type dnnl_type(DType type) {
  switch (type) {
    case DType::kFloat32:
      return memory::data_type::f32;
    case DType::kBFloat16:
      return memory::data_type::bf16;
    case DType::kFloat16:
      return memory::data_type::f16;
    case DType::kUInt8:
      return memory::data_type::u8;
    case DType::kInt32:
      return memory::data_type::s32;
  }
  throw std::logic_error("unknown element type");
}

memory::desc dnnl_desc(const Operand& operand, const Lowering& l) {
  const memory::dims dims = dnnl_dims(operand);
  const memory::data_type type = dnnl_type(operand.type);
  using tag = memory::format_tag;
  if (operand.layout == Layout::kBlocked) {
    return {dims, type, l.machine().block == 16 ? tag::nChw16c : tag::nChw8c};
  }
  if (operand.layout == Layout::kPlanar) return {dims, type, tag::nchw};
  constexpr tag kPlain[] = {tag::a, tag::ab, tag::abc, tag::nhwc};  // by rank, from 1
  return {dims, type, kPlain[std::min(operand.shape.rank(), std::size(kPlain)) - 1]};
}

DnnlEltwise dnnl_eltwise(const graph::Activation& activation) {
  using Kind = graph::Activation::Kind;
  using enum algorithm;
  switch (activation.kind) {
    case Kind::kLinear:
      return {eltwise_linear, eltwise_linear, 1};
    case Kind::kRelu:
      return {eltwise_relu, eltwise_relu_use_dst_for_bwd};
    case Kind::kLeakyRelu:
      return {eltwise_relu, eltwise_relu_use_dst_for_bwd, activation.alpha};
    case Kind::kRelu6:
      return {eltwise_clip_v2, eltwise_clip_v2_use_dst_for_bwd, 0, 6};
    case Kind::kElu:
      return {eltwise_elu, eltwise_elu_use_dst_for_bwd, activation.alpha};
    case Kind::kSigmoid:
      return {eltwise_logistic, eltwise_logistic_use_dst_for_bwd};
    case Kind::kTanh:
      return {eltwise_tanh, eltwise_tanh_use_dst_for_bwd};
    case Kind::kGelu:
      return {eltwise_gelu_erf, eltwise_gelu_erf};
    case Kind::kSwish:
      return {eltwise_swish, eltwise_swish, 1};
    case Kind::kHardSwish:
      return {eltwise_hardswish, eltwise_hardswish};
    case Kind::kNegativePart:
      return {eltwise_clip_v2, eltwise_clip_v2, std::numeric_limits<float>::lowest()};
    case Kind::kHardSigmoid:
    case Kind::kSelu:
    case Kind::kSoftmax:
      break;  // our own kernels (ops/activation.cpp, ops/softmax.cpp)
  }
  throw std::logic_error("unknown activation");
}

dnnl::primitive_attr dnnl_attributes(const graph::Activation& activation) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (!activation.linear()) {
    dnnl::post_ops ops;
    const DnnlEltwise eltwise = dnnl_eltwise(activation);
    ops.append_eltwise(1.0f, eltwise.algorithm, eltwise.alpha, eltwise.beta);
    attributes.set_post_ops(ops);
  }
  return attributes;
}

void require_code_memory() {
  constexpr std::size_t kBytes = 16 << 20;  // several kernels of 256 KiB, and their tables
  void* data = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    throw DeviceError(concat("cannot get ", kBytes >> 20,
                             " MiB of memory for the code of a layer; raise the limit on the "
                             "address space (ulimit -v), or use fewer lanes"));
  }
  ::munmap(data, kBytes);
}

std::function<void(const CallContext&)> make_dnnl_call(Lowering& l,
                                                       const dnnl::primitive& primitive,
                                                       const dnnl::primitive_desc_base& descriptor,
                                                       std::vector<DnnlArgument> arguments) {
  const memory::desc scratchpad = descriptor.scratchpad_desc();
  if (scratchpad.get_size() > 0) {
    const BufferId buffer = l.scratch(static_cast<std::int64_t>(scratchpad.get_size()));
    arguments.push_back({DNNL_ARG_SCRATCHPAD, scratchpad, buffer});
  }
  auto call = std::make_shared<Call>(primitive, std::move(arguments));
  return [call](const CallContext& context) { call->run(context); };
}

void emit_dnnl(Lowering& l, const dnnl::primitive& primitive,
               const dnnl::primitive_desc_base& descriptor, std::vector<DnnlArgument> arguments) {
  l.emit(descriptor.impl_info_str(),
         make_dnnl_call(l, primitive, descriptor, std::move(arguments)));
}

BufferId dnnl_weights(Lowering& l, std::size_t input, const memory::desc& plain,
                      const memory::desc& wanted) {
  if (plain == wanted) return l.input(input, Layout::kPlain).buffer;
  const auto bytes = static_cast<std::int64_t>(wanted.get_size());
  // A square kernel and its transpose may have one format.
  return l.packed_weights(input, make_key(plain) + make_key(wanted), bytes,
                          [plain, wanted](const float* from, std::byte* to) {
                            const auto reorder = std::make_shared<Reorder>(plain, from, wanted, to);
                            return [reorder] { reorder->run(); };
                          });
}

bool dnnl_is_reference(const char* implementation) {
  return std::strstr(implementation, "ref") != nullptr;
}

void emit_dnnl_reorder(Lowering& l, const memory::desc& from, BufferId from_buffer,
                       const memory::desc& to, BufferId to_buffer) {
  const dnnl::reorder::primitive_desc descriptor(dnnl_engine(), from, dnnl_engine(), to,
                                                 dnnl_attributes({}));
  emit_dnnl<dnnl::reorder>(l, descriptor,
                           {{DNNL_ARG_FROM, from, from_buffer}, {DNNL_ARG_TO, to, to_buffer}});
}

}  // namespace trainer::backend::cpu
