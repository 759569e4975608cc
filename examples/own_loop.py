"""RwF's routed blocks in a training loop of your own: rwf.route gives an ordinary nn.Module.

Run it: python examples/own_loop.py
"""

import timm
import torch

import rwf


def main(steps: int = 30) -> tuple[float, float]:
    torch.manual_seed(0)
    # any plain ViT of timm; with pretrained=True you get its weights
    model = timm.create_model("vit_tiny_patch16_224", img_size=64, num_classes=4, depth=4)
    routed = rwf.route(model, blocks=3, prompts=30)  # a copy: the model itself is left as it was

    trained = routed.trainable_parameters()
    print(f"{sum(p.numel() for p in trained):,} of {sum(p.numel() for p in routed.parameters()):,} numbers are trained")
    optimizer = torch.optim.Adam(trained, lr=1e-3)

    labels = torch.arange(32) % 4
    pictures = torch.randn(32, 3, 64, 64) + labels.view(-1, 1, 1, 1)
    losses = []
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(routed(pictures), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}")

    for block, attention in routed.maps(pictures[:1]).items():  # which tokens each prompt was made of
        print(f"block {block}: {tuple(attention.shape)} (pictures, prompts, tokens)")
    return losses[0], losses[-1]


if __name__ == "__main__":
    main()
