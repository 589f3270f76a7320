"""All processes add up their ranks, then train one small model together (PyTorch, gloo)."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from wherry import Run

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
total = torch.tensor(float(rank + 1))
dist.all_reduce(total)

torch.manual_seed(rank)
inputs = torch.randn(64, 3)
wanted = inputs @ torch.tensor([[1.0], [-2.0], [3.0]])
model = DistributedDataParallel(torch.nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(50):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), wanted)
    loss.backward()
    optimizer.step()

weights = model.module.weight.detach().flatten()
gathered = [torch.zeros(3) for _ in range(world)]
dist.all_gather(gathered, weights)
if rank == 0:
    run = Run.get_context()
    run.log("total", total.item())
    run.log("loss", loss.item())
    run.log("alike", int(all(torch.equal(each, weights) for each in gathered)))
    torch.save(model.module.state_dict(), "outputs/model.pt")
print(f"rank {rank} of {world} on node {os.environ['NODE_RANK']}: loss {loss.item():.6f}")
dist.destroy_process_group()
