//! How a session draws its tokens.

use crate::sys;

/// The sampler of a session. Nothing set: greedy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SamplerOptions {
    /// 0 = greedy.
    pub temperature: f32,
    /// The most likely tokens that are drawn from; 0 = all.
    pub top_k: u32,
    /// The most likely tokens that have this probability together; 0 = all.
    pub top_p: f32,
    /// The probability that a token has at least, relative to the most likely one; 0 = any.
    pub min_p: f32,
    /// Multiplicative; 0 or 1 = off.
    pub repeat_penalty: f32,
    /// Additive, for each time a token occurs; 0 = off.
    pub frequency_penalty: f32,
    /// Additive, for tokens that occur; 0 = off.
    pub presence_penalty: f32,
    /// How many tokens penalties look back; 0 = all.
    pub penalty_tokens: u32,
    /// Same seed, tokens, build and kernel set: same output.
    pub seed: u64,
}

impl SamplerOptions {
    pub(crate) fn raw(&self) -> sys::qinfer_sampler_options {
        sys::qinfer_sampler_options {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repeat_penalty: self.repeat_penalty,
            frequency_penalty: self.frequency_penalty,
            presence_penalty: self.presence_penalty,
            penalty_tokens: self.penalty_tokens,
            seed: self.seed,
            ..sys::sized()
        }
    }
}
