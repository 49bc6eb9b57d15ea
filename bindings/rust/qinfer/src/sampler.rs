//! How a session draws its tokens.

use crate::{sys, Error, Status};

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
    /// The most typical tokens that have this probability together; 0 or 1 = off.
    pub typical_p: f32,
    /// Logits at most so many standard deviations below the largest; 0 = off.
    pub top_n_sigma: f32,
    /// By how much the temperature changes with the entropy; 0 = off.
    pub dynatemp_range: f32,
    /// 0 = 1.
    pub dynatemp_exponent: f32,
    /// The chance that the most likely choices are excluded; 0 = off.
    pub xtc_probability: f32,
    /// 0 = 0.1.
    pub xtc_threshold: f32,
    /// The penalty for going on with a repetition; 0 = off. [`Session::set_dry_breakers`](crate::Session) has what none
    /// reaches over.
    pub dry_multiplier: f32,
    /// 0 = 1.75.
    pub dry_base: f32,
    /// 0 = 2.
    pub dry_allowed_length: u32,
    /// How many tokens DRY looks back; 0 = all.
    pub dry_penalty_tokens: u32,
    /// 0 = off; 2.
    pub mirostat: u32,
    /// In bits; 0 = 5.
    pub mirostat_tau: f32,
    /// 0 = 0.1.
    pub mirostat_eta: f32,
    /// The order of the steps.
    pub steps: Steps,
}

/// The steps of a sampler in their order, as letters that `qinfer.h` explains; the default is `edtskypmx`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps([u8; 20]);

impl TryFrom<&str> for Steps {
    type Error = Error;
    /// Which letters there are is checked when a session gets them.
    fn try_from(letters: &str) -> Result<Steps, Error> {
        let mut steps = Steps::default();
        if letters.len() >= steps.0.len() || letters.contains('\0') {
            let message = format!("steps has {} letters, expected at most 19", letters.len());
            return Err(Error::new(Status::InvalidArgument, message, 0));
        }
        steps.0[..letters.len()].copy_from_slice(letters.as_bytes());
        Ok(steps)
    }
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
            typical_p: self.typical_p,
            top_n_sigma: self.top_n_sigma,
            dynatemp_range: self.dynatemp_range,
            dynatemp_exponent: self.dynatemp_exponent,
            xtc_probability: self.xtc_probability,
            xtc_threshold: self.xtc_threshold,
            dry_multiplier: self.dry_multiplier,
            dry_base: self.dry_base,
            dry_allowed_length: self.dry_allowed_length,
            dry_penalty_tokens: self.dry_penalty_tokens,
            mirostat: self.mirostat,
            mirostat_tau: self.mirostat_tau,
            mirostat_eta: self.mirostat_eta,
            steps: self.steps.0.map(|letter| letter as std::ffi::c_char),
            ..sys::sized()
        }
    }
}
