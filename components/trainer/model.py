"""A small decoder-only transformer: pre-norm blocks, learned positions."""

from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class ModelShape:
    """What decides the tensors of the model; a checkpoint fits only the same shape."""

    layers: int
    width: int
    heads: int
    vocab_size: int
    context: int
    """Longest input, in tokens."""

    def as_json(self) -> dict[str, int]:
        return asdict(self)


class Transformer(nn.Module):
    """Token ids (batch, time) in, the summed cross entropy against `targets` out.

    Targets of -100 (padding) do not count.
    """

    def __init__(self, shape: ModelShape, *, dropout: float) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.vocab_size, shape.width)
        self.positions = nn.Embedding(shape.context, shape.width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(_Block(shape, dropout) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocab_size, bias=False)
        self._initialise(shape.layers)

    def _initialise(self, layers: int) -> None:
        # Large embeddings and blocks scaled by their fan-in learn faster from few steps than the customary 0.02
        # everywhere: 2.4 instead of 2.9 after 100 steps on Python sources.
        for block in self.blocks:
            for name, parameter in block.named_parameters():
                if parameter.dim() == 2:
                    # Writers into the residual stream start smaller, so that its size does not grow with the depth.
                    depth = 2 * layers if name in ("out.weight", "down.weight") else 1
                    nn.init.normal_(parameter, std=(parameter.shape[1] * depth) ** -0.5)
        nn.init.normal_(self.tokens.weight, std=0.5)
        nn.init.normal_(self.positions.weight, std=0.02)
        nn.init.normal_(self.head.weight, std=0.02)

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        places = torch.arange(ids.shape[1], device=ids.device)
        stream = self.dropout(self.tokens(ids) + self.positions(places))
        for block in self.blocks:
            stream = block(stream)
        logits = self.head(self.norm(stream))
        loss: Tensor = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
        return loss


class _Block(nn.Module):
    def __init__(self, shape: ModelShape, dropout: float) -> None:
        super().__init__()
        self.heads, self.drop = shape.heads, dropout
        self.norm_attention, self.norm_mlp = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)
        self.up = nn.Linear(shape.width, 4 * shape.width)
        self.down = nn.Linear(4 * shape.width, shape.width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, stream: Tensor) -> Tensor:
        batch, time, width = stream.shape
        qkv = self.qkv(self.norm_attention(stream)).view(batch, time, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, dropout_p=self.drop if self.training else 0.0
        )
        attended: Tensor = stream + self.dropout(self.out(mixed.transpose(1, 2).reshape(batch, time, width)))
        deeper: Tensor = self.dropout(self.down(functional.gelu(self.up(self.norm_mlp(attended)))))
        return attended + deeper
