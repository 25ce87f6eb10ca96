"""The exact ranking engine: `ranking.py` for Recall@K and MAP@R, `top_k.py` for neighbor lists."""
