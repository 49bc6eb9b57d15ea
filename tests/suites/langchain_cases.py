"""langchain-tests with its classes for OpenAI's interface: run by suite_langchain.py with pytest, QINFER_SUITE_URL naming a
server of tiny-chat."""
import os

from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from langchain_tests.integration_tests import ChatModelIntegrationTests, EmbeddingsIntegrationTests

BASE = {"model": "tiny-chat", "base_url": os.environ["QINFER_SUITE_URL"] + "/v1", "api_key": "x", "max_retries": 0}
# What is forced into a form has to end: strings of so small a model go round in circles, unless repeating costs and the
# tokens " and } are likely.
DRAW = {"temperature": 0, "max_tokens": 512, "frequency_penalty": 1, "logit_bias": {"1": 12, "92": 12}}


class TestChat(ChatModelIntegrationTests):
    @property
    def chat_model_class(self):
        return ChatOpenAI

    @property
    def chat_model_params(self):
        return {**BASE, **DRAW, "stream_usage": True}

    @property
    def supports_json_mode(self):
        return True

    @property
    def structured_output_kwargs(self):
        return {"method": "json_schema"}

    @property
    def model_override_value(self):
        return "tiny-chat"


class TestChatByTools(TestChat):
    """Structured output by a call that is forced."""

    @property
    def structured_output_kwargs(self):
        return {"method": "function_calling"}


class TestResponses(TestChat):
    @property
    def chat_model_params(self):
        return {**BASE, "temperature": 0, "max_tokens": 512, "use_responses_api": True, "store": False}


class TestEmbeddings(EmbeddingsIntegrationTests):
    @property
    def embeddings_class(self):
        return OpenAIEmbeddings

    @property
    def embedding_model_params(self):
        return {**BASE, "check_embedding_ctx_length": False}
