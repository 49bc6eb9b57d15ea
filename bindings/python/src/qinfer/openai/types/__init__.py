"""Types of answers, where the service's package has them."""

from .._answers import Completion, CompletionChoice, CompletionUsage, CreateEmbeddingResponse, Embedding, Model

__all__ = ["Completion", "CompletionChoice", "CompletionUsage", "CreateEmbeddingResponse", "Embedding", "Model"]
